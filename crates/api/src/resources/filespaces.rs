//! Removal of filespaces.

use schemars::JsonSchema;
use serde::Deserialize;

use super::found_node::find_node;
use super::nodes::NodePath;
use super::orders::FilespaceRemoval;
use crate::approval;
use crate::call::{Answer, Call};
use crate::fields::{Empty, NameText};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
}

pub(super) fn add(routes: &mut Routes) {
    let path = "/v1/nodes/{node}/filespaces";
    let summary = "Removes a filespace with all its versions; needs the approval of a second \
                   person where that is switched on";
    routes.add(Operation::delete("filespaces.remove", path, Area::Nodes, summary), remove);
}

fn remove(call: &mut Call<NodePath, RemoveQuery, Empty>) -> Answer<Empty> {
    let (desk, caller) = (&call.desk, &call.caller);
    let node = find_node(desk, caller, &call.path.node, (Area::Nodes, Right::Write))?.node;
    let (store, name) = (desk.store(), &call.query.filespace);
    let filespace = match store::nodes::find_filespace(store, &node, &name.0) {
        Ok(filespace) => filespace,
        Err(store::StoreError::NotFound(_)) => {
            return Err(Problem::not_found("filespace", &name.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    // Nobody is asked to approve what would be refused.
    store::nodes::check_filespace_removal(store, &node)?;
    approval::guard(desk, caller, &FilespaceRemoval::new(&node, &filespace))?;
    store::nodes::remove_filespace(store, &node, &filespace, &caller.name)?;
    Ok(Empty {})
}
