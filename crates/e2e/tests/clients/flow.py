"""The main flow of the service, and all its lists, by a client that was made from its document."""

import json
import re
import sys
from datetime import datetime, timezone
from importlib import import_module

from client import AuthenticatedClient
from client.api.domains import domains_add, domains_list
from client.api.events import events_get
from client.api.filespaces import filespaces_list
from client.api.nights import nights_list
from client.api.nodes import nodes_add, nodes_change, nodes_get, nodes_list, nodes_remove
from client.api.option_sets import option_sets_add
from client.api.policies import policies_edit, policies_get
from client.api.schedules import schedules_add
from client.api.tasks import tasks_start
from client.models import (
    Action,
    Calendar,
    Definition,
    EditBody,
    Mode,
    NewDomainBody,
    NewNodeBody,
    NewOptionSetBody,
    NewScheduleBody,
    NodeChangeBody,
    StartBody,
    StartsType0,
    TaskName,
    Timing,
    Work,
)

url, key, ca, document, backed_up = sys.argv[1:]
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
started = tasks_start.sync_detailed(client=client, body=StartBody(task=TaskName.AUDIT))
started = expect(201, started)
assert expect(200, events_get.sync_detailed(started.number, client=client)).work == "audit"
night = expect(200, nights_list.sync_detailed(client=client, domain="GENERATED"))
assert [one.node for one in night.items] == ["generated-1"]
starts = StartsType0(calendar=Calendar(times="22:00", weekdays="mon-fri"))
definition = Definition(
    action=Action(work=Work.INCREMENTAL, objects=["/srv"]),
    timing=Timing(starts=starts, window_minutes=60, spread_percent=25),
    zone="Europe/Berlin",
    priority=5,
    retries=2,
    retry_pause_minutes=20,
)
new = NewScheduleBody(name="generated", definition=definition, followers=[])
kept = expect(201, schedules_add.sync_detailed(client=client, body=new)).definition
assert kept.action.work is Work.INCREMENTAL and kept.timing.starts == starts, kept
asked = policies_get.sync_detailed("GENERATED", client=client)
backup = expect(200, asked).active.classes[0].backup
assert backup.mode is Mode.MODIFIED, backup
backup.versions_existing_max = "3"
changed = EditBody.from_dict({"put_class": {"name": "STANDARD", "backup": backup.to_dict()}})
expect(200, policies_edit.sync_detailed("GENERATED", client=client, body=changed))
draft = expect(200, policies_get.sync_detailed("GENERATED", client=client)).draft
assert draft.classes[0].backup == backup, draft


def lists(document):
    """Returns the tag, the name and the parameters of each operation that answers with a list."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        operation = operations.get("get", {"responses": {}})
        content = operation["responses"].get("200", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        if "items" in schemas.get(name, {}).get("properties", {}):
            needed = [one for one in operation.get("parameters", []) if one.get("required")]
            yield operation["tags"][0], operation["operationId"], [one["name"] for one in needed]


def ask(tag, name, needed):
    """Asks for a list with what it needs."""
    tag, name = (re.sub("[.-]", "_", word) for word in (tag, name))
    module = import_module(f"client.api.{tag}.{name}")
    # A word of Python as the name of a parameter ends with a line there.
    given = {"from_" if one == "from" else one: VALUES[one] for one in needed}
    return expect(200, module.sync_detailed(client=client, **given)).items


options = NewOptionSetBody(name="generated", statements=["exclude /.../*.tmp"])
expect(201, option_sets_add.sync_detailed(client=client, body=options))
filespaces = expect(200, filespaces_list.sync_detailed(backed_up, client=client)).items
VALUES = {
    "node": backed_up,
    "option_set": "generated",
    "filespace": filespaces[0].name,
    "pattern": "/*",
    "from": datetime(2026, 1, 1, tzinfo=timezone.utc),
}
with open(document) as file:
    listed = {name: ask(tag, name, needed) for tag, name, needed in lists(json.load(file))}
assert len(listed) > 30, listed.keys()
for name in ["filespaces.list", "nodes.backups", "option-sets.versions", "users.list"]:
    assert listed[name], name
expect(204, nodes_remove.sync_detailed("generated-1", client=client))
assert nodes_get.sync_detailed("generated-1", client=client).status_code == 404
print("the generated client did everything")
