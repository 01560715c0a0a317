//! Health and readiness, for load balancers and service managers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{Answer, Call};
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::Area;
use crate::routes::Routes;

/// State of the server.
#[derive(Serialize, JsonSchema)]
struct Health {
    status: &'static str,
}

pub(crate) fn add(routes: &mut Routes) {
    let summary = "Says that the process works";
    routes.add(Operation::read("health.live", "/healthz", Area::Open, summary), live);
    let summary = "Says whether the server can serve requests";
    routes.add(Operation::read("health.ready", "/readyz", Area::Open, summary), ready);
}

fn live(_: &mut Call<Empty, Empty, Empty>) -> Answer<Health> {
    Ok(Health { status: "live" })
}

fn ready(call: &mut Call<Empty, Empty, Empty>) -> Answer<Health> {
    let store = call.desk.store();
    if store.stopping.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Problem::new(Kind::Unavailable, "the server is stopping"));
    }
    // The catalogue answers.
    store.catalog.events(None, 1)?;
    Ok(Health { status: "ready" })
}
