//! The operations, one module a noun.

mod account;
mod alerts;
mod approvals;
mod archives;
mod baselines;
mod catalog_copies;
mod choices;
mod contents;
mod differences;
mod domains;
mod enrolment_keys;
mod events;
mod filespaces;
mod found_node;
mod growth;
mod guarded_calls;
mod inventory;
mod keys;
mod libraries;
mod live;
mod log;
mod monthly;
mod nights;
mod node_config;
mod node_lists;
mod node_settings;
mod nodes;
mod oidc_sign_in;
mod option_sets;
mod orders;
mod overview;
mod people;
mod policies;
mod pools;
mod recall_queue;
mod restores;
mod schedules;
mod series;
mod service;
mod sessions;
mod sign_in;
mod tar_tree;
mod tasks;
mod trees;
mod volumes;
mod work_reports;
mod zip_tree;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::middleware::from_fn;

pub(crate) use self::domains::{find as find_domain, numbers_seen as domains_seen};
pub(crate) use self::enrolment_keys::{check_end, keys_seen};
pub(crate) use self::events::{area_of as area_of_run, require as require_event};
pub(crate) use self::found_node::{find_node, nodes_seen, sight as node_sight};
pub(crate) use self::guarded_calls::{guard_call, is_guarded};
pub(crate) use self::nodes::{check_handover, guard_move};
pub(crate) use self::option_sets::{check_commands, check_return, check_seen, option_sets_seen};
pub(crate) use self::schedules::{
    check_change, check_reach, check_reach_in, check_removal, check_spread, schedules_seen,
};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::{challenge, health, metrics, unread};

/// Returns all routes.
pub(crate) fn routes() -> Routes {
    let mut routes = Routes::new();
    health::add(&mut routes);
    metrics::add(&mut routes);
    sign_in::add(&mut routes);
    oidc_sign_in::add(&mut routes);
    account::add(&mut routes);
    service::add(&mut routes);
    people::add(&mut routes);
    keys::add(&mut routes);
    domains::add(&mut routes);
    policies::add(&mut routes);
    option_sets::add(&mut routes);
    enrolment_keys::add(&mut routes);
    node_lists::add(&mut routes);
    nodes::add(&mut routes);
    node_settings::add(&mut routes);
    node_config::add(&mut routes);
    filespaces::add(&mut routes);
    choices::add(&mut routes);
    schedules::add(&mut routes);
    events::add(&mut routes);
    sessions::add(&mut routes);
    nights::add(&mut routes);
    series::add(&mut routes);
    baselines::add(&mut routes);
    inventory::add(&mut routes);
    differences::add(&mut routes);
    archives::add(&mut routes);
    contents::add(&mut routes);
    restores::add(&mut routes);
    pools::add(&mut routes);
    libraries::add(&mut routes);
    volumes::add(&mut routes);
    recall_queue::add(&mut routes);
    tasks::add(&mut routes);
    catalog_copies::add(&mut routes);
    log::add(&mut routes);
    approvals::add(&mut routes);
    overview::add(&mut routes);
    growth::add(&mut routes);
    alerts::add(&mut routes);
    monthly::add(&mut routes);
    routes.router = std::mem::take(&mut routes.router)
        .fallback(page_or_nothing)
        .method_not_allowed_fallback(async || {
            let text = "this path has no such operation; /v1/openapi.json lists all";
            let problem = Problem::new(crate::problem::Kind::MethodNotAllowed, text);
            crate::routes::finish(problem.response())
        })
        .layer(from_fn(challenge::spare_scripts))
        .layer(from_fn(unread::read_rest));
    routes
}

/// Answers a request that is no operation: browsers get the page.
async fn page_or_nothing(request: Request) -> Response<Body> {
    let page = page(&request);
    crate::routes::finish(page.unwrap_or_else(|| no_such_path().response()))
}

#[cfg(feature = "page")]
fn page(request: &Request) -> Option<Response<Body>> {
    let answer = web::answer(request.method(), request.uri().path(), request.headers())?;
    Some(answer.map(Body::from))
}

#[cfg(not(feature = "page"))]
fn page(_: &Request) -> Option<Response<Body>> {
    None
}

fn no_such_path() -> Problem {
    let text = "there is nothing at this path; /v1/openapi.json lists all operations";
    Problem::new(crate::problem::Kind::NotFound, text)
}
