//! The document of the REST operations, and the table of roles.

use super::compare;

#[test]
fn the_document_of_operations_is_current() {
    compare("openapi.json", &api::document());
}

#[test]
fn the_table_of_roles_is_current() {
    let page = format!("{HEAD}{}{TAIL}", api::role_table());
    compare("roles.md", &page);
}

const HEAD: &str = "\
# Roles

Who may do what with the [REST operations](openapi.json). Each operation belongs to an area and
reads or changes something; the document names both (`x-area`, `x-right`). A test walks all
operations with all roles and compares what happens with this table.

- A role can be held everywhere, or in one domain, and then covers the objects of that domain. The
  roles `tenant` and `owner` are always held in a domain.
- Each person is the owner of the nodes that name the person as their owner, whatever their domain.
- Everybody may read and change the own account and its keys. A key allows no more than its person
  may: a `readonly` key reads, an `enroller` registers nodes, an `impersonator` acts for another.
- What belongs to the service as a whole is for those who hold a role everywhere: pools, volumes,
  libraries, tasks, the log, metrics, the test of alerts, and changes of option sets and of
  schedules that belong to no domain.
- An owner has rights to own nodes, and to nothing else of a domain but to register nodes there.
- Keys of other people belong to the area of people.
- An object that a caller may not see is answered as one that does not exist.
- A node shows its people what its option set says. So administrators of domains give their nodes
  the option sets that a node of the domain has already; who runs the service gives the first one.

";

const TAIL: &str = "
## What domains share

A caller sees no object of another domain. One thing is the same for all domains, though, and tells
that there is something: names of nodes, logins of people, and names of schedules, enrolment keys,
domains and option sets are taken once for the whole server. Whoever may make one of them and
chooses a name of another domain is told that the name is taken, and so learns that it exists: not
what it is, nor whose. Where customers must not learn this of each other, give each a prefix of its
own for its names, as in `lab-web-1`.

Labels are words of all domains, too. A schedule that a label follows is for all nodes with this
label, and whoever may label a node sees it then: a guessed label shows the schedule. Let the
domain or the nodes of a customer follow a schedule that others must not see.

Numbers that customers see tell nothing of others:

- The number of an archive, a deletion or a kept baseline is made of the time at which it was made,
  in milliseconds since 1970, and of three digits by chance. Everybody gets the same number: the
  node, its owner and those who run the service. Numbers that a server of an older version has
  counted, from 1, stay as they are and stay valid, in commands, scripts and addresses; they tell
  about how many others there were at that time.
- Drills and sessions of nodes have numbers by chance, which are valid while they last.
- Management classes have numbers by chance, but the first class of the domain `STANDARD`. Classes
  that a server of an older version has made keep the numbers that it has counted.
- Packs are numbered over all domains. Nothing shows these numbers to customers, but the program of
  a node gets those of the packs that have its data, and a program that is changed could look at
  them. Messages about data that cannot be read name no pack.
- Events, requests for approval and alerts are numbered over all domains. Callers with a role
  everywhere get these numbers. Everybody else gets a *cover* in place of each.

A cover is another number, below 2^52, which stands for the same object always and at every
server of the service, and which gives away neither the order nor how many there are. So do cursors.
The REST API, the page and `holdfast admin --server https://...` show covers to the administrator of
a domain and the owner of a node, and take only covers from them. From those who run the service the
API and the page take both, so an address that a customer passes on leads them to the same event.
";
