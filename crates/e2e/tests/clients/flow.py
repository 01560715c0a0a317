"""The main flow of the service, by a client that was generated from its own document."""

import sys

from client import AuthenticatedClient
from client.api.domains import domains_add, domains_list
from client.api.events import events_get
from client.api.nights import nights_list
from client.api.nodes import nodes_add, nodes_change, nodes_get, nodes_list, nodes_remove
from client.api.tasks import tasks_start
from client.models import NewDomainBody, NewNodeBody, NodeChangeBody, StartBody

url, key, ca = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key, prefix="Token", verify_ssl=ca)


def expect(status, answer):
    assert answer.status_code == status, (answer.status_code, answer.content)
    return answer.parsed


expect(201, domains_add.sync_detailed(client=client, body=NewDomainBody(name="GENERATED")))
names = [one.name for one in expect(200, domains_list.sync_detailed(client=client)).items]
assert "GENERATED" in names, names
new = NewNodeBody(name="generated-1", domain="GENERATED", hostname="generated.example.org")
made = expect(201, nodes_add.sync_detailed(client=client, body=new))
assert made.token.startswith("hf1.") and made.node.name == "generated-1"
change = NodeChangeBody(description="by a generated client", add_labels=["generated"])
changed = expect(200, nodes_change.sync_detailed("generated-1", client=client, body=change))
assert changed.labels == ["generated"], changed
found = nodes_list.sync_detailed(client=client, label="generated", search="generated")
listed = expect(200, found)
assert [one.hostname for one in listed.items] == ["generated.example.org"]
assert expect(200, nodes_get.sync_detailed("generated-1", client=client)).domain == "GENERATED"
started = tasks_start.sync_detailed(client=client, body=StartBody(task="audit"))
started = expect(201, started)
assert expect(200, events_get.sync_detailed(started.number, client=client)).work == "audit"
night = expect(200, nights_list.sync_detailed(client=client, domain="GENERATED"))
assert [one.node for one in night.items] == ["generated-1"]
expect(204, nodes_remove.sync_detailed("generated-1", client=client))
assert nodes_get.sync_detailed("generated-1", client=client).status_code == 404
print("the generated client did everything")
