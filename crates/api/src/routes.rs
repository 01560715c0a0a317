//! Routes: each is an operation with a function of typed parts.
//!
//! ```text
//!   request -> path, query, body (bounded) -> thread that may block:
//!       caller -> rate -> right -> JSON -> tag or key of the request -> function -> JSON
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::{MethodFilter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answers::{self, KeyedRequest};
use crate::authentication::{self, Evidence, Identity};
use crate::call::{Answer, Attention, Call, Reply};
use crate::caller::{Caller, Limit};
use crate::desk::{self, Desk, StreamSeat};
use crate::download::Download;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::standing::Standing;
use crate::{parameters, shape, tags};

/// Maximum size of the body of a request, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;
/// Time in which the body of a request must have come.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// The network address of a client, as the listener notes it in each request.
#[derive(Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The user of the administration socket, as the socket's service notes it in each request.
#[derive(Clone)]
pub(crate) struct LocalUser(pub(crate) String);

/// Function of an operation.
pub(crate) type Handler<P, Q, B, T> = fn(&mut Call<P, Q, B>) -> Answer<T>;

/// A type of the parts and answers of operations.
pub(crate) trait Part: JsonSchema + Send + 'static {}
impl<T: JsonSchema + Send + 'static> Part for T {}

/// Types of an operation, as its document shows them.
#[derive(Clone)]
pub(crate) struct Types {
    pub(crate) path: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) query: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the body of the request; `None` without one.
    pub(crate) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) answer: AnswerType,
    /// True if a request may name the tag of the object that it changes.
    pub(crate) takes_tag: bool,
}

/// The answer of an operation.
#[derive(Clone, Copy)]
pub(crate) enum AnswerType {
    Empty,
    Document {
        status: StatusCode,
        schema: fn(&mut SchemaGenerator) -> Schema,
    },
    /// Bytes of this media type, as long as they come.
    Stream(&'static str),
}

/// All routes with their operations.
pub(crate) struct Routes {
    pub(crate) router: Router<Arc<Desk>>,
    pub(crate) operations: Vec<(Operation, Types)>,
}

/// An operation with its function.
struct Endpoint<P, Q, B, T> {
    operation: Operation,
    status: StatusCode,
    handler: Handler<P, Q, B, T>,
    /// Returns the document that the operation changes, as it is read.
    current: Option<Current<P>>,
}

/// Function that returns the document of an object, as reading it gives it.
type Current<P> = fn(&Arc<Desk>, &Caller, &P) -> Answer<Vec<u8>>;

/// A request whose parts are read, but not its caller.
struct Arrival<P, Q> {
    desk: Arc<Desk>,
    parts: Parts,
    path: P,
    query: Q,
    body: bytes::Bytes,
    attention: Attention,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), operations: Vec::new() }
    }

    /// Adds an operation.
    pub(crate) fn add<P, Q, B, T>(&mut self, operation: Operation, handler: Handler<P, Q, B, T>)
    where
        P: Part + DeserializeOwned,
        Q: Part + DeserializeOwned,
        B: Part + DeserializeOwned,
        T: Part + Serialize,
    {
        self.put(Endpoint { operation, status: StatusCode::OK, handler, current: None });
    }

    /// Adds an operation that makes something. A request with an `Idempotency-Key` makes it once.
    pub(crate) fn make<P, Q, B, T>(&mut self, operation: Operation, handler: Handler<P, Q, B, T>)
    where
        P: Part + DeserializeOwned,
        Q: Part + DeserializeOwned,
        B: Part + DeserializeOwned,
        T: Part + Serialize,
    {
        self.put(Endpoint { operation, status: StatusCode::CREATED, handler, current: None });
    }

    /// Adds an operation that changes the object that `read` describes. A request with `If-Match`
    /// changes it only if it is as the caller has read it.
    pub(crate) fn change<P, Q, B, T>(
        &mut self,
        operation: Operation,
        current: Current<P>,
        handler: Handler<P, Q, B, T>,
    ) where
        P: Part + DeserializeOwned,
        Q: Part + DeserializeOwned,
        B: Part + DeserializeOwned,
        T: Part + Serialize,
    {
        let current = Some(current);
        self.put(Endpoint { operation, status: StatusCode::OK, handler, current });
    }

    /// Adds an operation whose answer is a stream of bytes.
    pub(crate) fn stream<P, Q>(
        &mut self,
        operation: Operation,
        media: &'static str,
        handler: fn(&mut Call<P, Q, Empty>) -> Answer<Download>,
    ) where
        P: Part + DeserializeOwned,
        Q: Part + DeserializeOwned,
    {
        let types = Types {
            path: P::json_schema,
            query: Q::json_schema,
            body: None,
            answer: AnswerType::Stream(media),
            takes_tag: false,
        };
        self.operations.push((operation.clone(), types));
        let path = operation.path;
        let filter = filter(&operation.method);
        let operation = Arc::new(operation);
        let serve = move |desk: axum::extract::State<Arc<Desk>>, request: Request| {
            let operation = Arc::clone(&operation);
            async move { serve_stream(operation, handler, desk.0, request).await }
        };
        self.router = std::mem::take(&mut self.router).route(path, on(filter, serve));
    }

    fn put<P, Q, B, T>(&mut self, endpoint: Endpoint<P, Q, B, T>)
    where
        P: Part + DeserializeOwned,
        Q: Part + DeserializeOwned,
        B: Part + DeserializeOwned,
        T: Part + Serialize,
    {
        let has_answer = !is_nothing::<T>();
        let answer = match has_answer {
            true => AnswerType::Document {
                status: endpoint.status,
                schema: |generator| generator.subschema_for::<T>(),
            },
            false => AnswerType::Empty,
        };
        let types = Types {
            path: P::json_schema,
            query: Q::json_schema,
            body: (!is_nothing::<B>()).then_some(|generator| generator.subschema_for::<B>()),
            answer,
            takes_tag: endpoint.current.is_some(),
        };
        self.operations.push((endpoint.operation.clone(), types));
        let (path, filter) = (endpoint.operation.path, filter(&endpoint.operation.method));
        let endpoint = Arc::new(endpoint);
        let serve = move |desk: axum::extract::State<Arc<Desk>>, request: Request| {
            let endpoint = Arc::clone(&endpoint);
            async move { serve(endpoint, desk.0, request).await }
        };
        self.router = std::mem::take(&mut self.router).route(path, on(filter, serve));
    }
}

fn is_nothing<T: 'static>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<Empty>()
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("operations have ordinary methods")
}

async fn serve<P, Q, B, T>(
    endpoint: Arc<Endpoint<P, Q, B, T>>,
    desk: Arc<Desk>,
    request: Request,
) -> Response<Body>
where
    P: Part + DeserializeOwned,
    Q: Part + DeserializeOwned,
    B: Part + DeserializeOwned,
    T: Part + Serialize,
{
    let received = match receive::<P, Q>(Arc::clone(&desk), request).await {
        Ok(received) => received,
        Err(problem) => return refuse(&endpoint.operation, &problem),
    };
    let is_tagged = received.parts.headers.contains_key(header::IF_MATCH);
    let change = match endpoint.current {
        Some(_) if is_tagged || !endpoint.operation.is_slow => Some(desk.hold_changes().await),
        _ => None,
    };
    let work = desk.begin_work().await;
    // The sign is dropped with this future, which ends with the connection.
    let _waiting = received.attention.waiting();
    let answering = tokio::task::spawn_blocking(move || {
        let _held = (change, work);
        let operation = endpoint.operation.id;
        let _span = tracing::info_span!(target: model::TRACE, "request", operation).entered();
        let (mut headers, counter) = (HeaderMap::new(), StatementCounter::start());
        let mut response = match carry_out(&endpoint, received, &mut headers) {
            Ok(reply) => response(reply),
            Err(problem) => problem.response(),
        };
        counter.note(&endpoint.operation, response.status());
        response.headers_mut().extend(headers);
        response
    });
    finish(answering.await.unwrap_or_else(|_| bug().response()))
}

/// Counter of the statements that a request puts to the catalogue.
struct StatementCounter {
    before: u64,
}

impl StatementCounter {
    fn start() -> Self {
        Self { before: catalog::statements_of_thread() }
    }

    /// Tells those who look for errors what became of the request.
    fn note(&self, operation: &Operation, status: StatusCode) {
        let statements = catalog::statements_of_thread() - self.before;
        let (operation, status) = (operation.id, status.as_u16());
        tracing::debug!(operation, status, statements, "request answered");
    }
}

/// Answers a request that cannot be read.
fn refuse(operation: &Operation, problem: &Problem) -> Response<Body> {
    StatementCounter::start().note(operation, problem.kind.status());
    finish(problem.response())
}

/// The problem of a panic, which was logged where it was.
fn bug() -> Problem {
    Problem::new(Kind::Bug, "the operation was ended by a bug, which the server has logged")
}

async fn serve_stream<P, Q>(
    operation: Arc<Operation>,
    handler: fn(&mut Call<P, Q, Empty>) -> Answer<Download>,
    desk: Arc<Desk>,
    request: Request,
) -> Response<Body>
where
    P: Part + DeserializeOwned,
    Q: Part + DeserializeOwned,
{
    let is_head = request.method() == Method::HEAD;
    let received = match receive::<P, Q>(Arc::clone(&desk), request).await {
        Ok(received) => received,
        Err(problem) => return refuse(&operation, &problem),
    };
    let work = desk.begin_work().await;
    let _waiting = received.attention.waiting();
    let opening = tokio::task::spawn_blocking(move || {
        let _work = work;
        let (mut headers, counter) = (HeaderMap::new(), StatementCounter::start());
        let opened = open(&operation, handler, received, &mut headers);
        let status =
            opened.as_ref().map_or_else(|problem| problem.kind.status(), |_| StatusCode::OK);
        counter.note(&operation, status);
        (opened, headers)
    });
    let (opened, headers) = opening.await.unwrap_or_else(|_| (Err(bug()), HeaderMap::new()));
    let mut response = match opened {
        Ok((download, ..)) if is_head => download.head(),
        Ok((download, seat, standing)) => {
            let started = download.response(seat, standing).await;
            started.unwrap_or_else(|problem| problem.response())
        }
        Err(problem) => problem.response(),
    };
    response.headers_mut().extend(headers);
    finish(response)
}

/// Makes a download, with the right to its stream and the standing of its caller.
fn open<P, Q>(
    operation: &Operation,
    handler: fn(&mut Call<P, Q, Empty>) -> Answer<Download>,
    received: Arrival<P, Q>,
    headers: &mut HeaderMap,
) -> Result<(Download, StreamSeat, Standing), Problem> {
    let identity = admit(operation, &received, headers)?;
    let Arrival { desk, parts, path, query, attention, .. } = received;
    let seat = desk.begin_stream(&identity.caller.account())?;
    let standing = Standing::new(&desk, &evidence(&parts), &identity.caller);
    let call = call(desk, &parts, identity, (path, query, Empty {}));
    let mut call = Call { attention, ..call };
    let mut download = handler(&mut call)?;
    let standing = standing.with_node(download.node.take(), (operation.area, operation.right));
    Ok((download, seat, standing))
}

/// Reads the parts of a request.
async fn receive<P, Q>(desk: Arc<Desk>, request: Request) -> Result<Arrival<P, Q>, Problem>
where
    P: Part + DeserializeOwned,
    Q: Part + DeserializeOwned,
{
    let (mut parts, body) = request.into_parts();
    if parts.uri.to_string().contains("%00") {
        return Err(Problem::invalid("a path and its query cannot have a NUL"));
    }
    let path = Path::<P>::from_request_parts(&mut parts, &()).await;
    let Path(path) = path.map_err(|error| parameters::wrong_path::<P>(&error))?;
    let query = Query::<Q>::try_from_uri(&parts.uri);
    let Query(query) = query.map_err(|error| parameters::wrong_query::<Q>(&error))?;
    let coming = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, BODY_BYTES_MAX));
    let body = coming.await.map_err(|_| Problem::invalid("the body came too slowly"))?;
    let body = body.map_err(|_| {
        let text = format!("a body has at most {BODY_BYTES_MAX} bytes, and must come whole");
        Problem::new(Kind::TooLarge, text)
    })?;
    Ok(Arrival { desk, parts, path, query, body, attention: Attention::default() })
}

/// Returns what a request shows about its caller.
fn evidence(parts: &Parts) -> Evidence<'_> {
    let address = parts.extensions.get::<ClientAddress>().map(|address| address.0);
    let local = parts.extensions.get::<LocalUser>().map(|user| user.0.clone());
    Evidence { headers: &parts.headers, method: &parts.method, address, local }
}

/// Returns the caller, if the caller may use the operation at all and not too often.
fn admit<P, Q>(
    operation: &Operation,
    received: &Arrival<P, Q>,
    headers: &mut HeaderMap,
) -> Result<Identity, Problem> {
    let Arrival { desk, parts, .. } = received;
    let evidence = evidence(parts);
    let identity = authentication::identify(desk, &evidence)?;
    let Identity { caller, .. } = &identity;
    // The administrator of the machine has no limit: a question about all nodes is one request for
    // each of them.
    if evidence.local.is_none() {
        let account = match caller.limit {
            Limit::Stranger => format!("{:?}", desk::origin(evidence.address)),
            _ => caller.account(),
        };
        desk.rates.take(&account, sys::clock::monotonic())?.tell(headers);
    }
    if caller.may_somewhere(operation.area, operation.right) {
        return Ok(identity);
    }
    Err(match caller.limit {
        Limit::Stranger => Problem::new(Kind::Unauthenticated, "sign in, or give a key"),
        _ => Problem::forbidden(),
    })
}

fn call<P, Q, B>(
    desk: Arc<Desk>,
    parts: &Parts,
    identity: Identity,
    (path, query, body): (P, Q, B),
) -> Call<P, Q, B> {
    let Identity { caller, sign_in } = identity;
    let origin = parts.extensions.get::<ClientAddress>().map(|address| address.0);
    let (request, headers) = (parts.headers.clone(), HeaderMap::new());
    let attention = Attention::default();
    Call { desk, caller, origin, sign_in, path, query, body, request, headers, attention }
}

fn carry_out<P, Q, B, T>(
    endpoint: &Endpoint<P, Q, B, T>,
    received: Arrival<P, Q>,
    headers: &mut HeaderMap,
) -> Result<Reply, Problem>
where
    P: DeserializeOwned,
    B: Part + DeserializeOwned,
    T: Serialize + 'static,
{
    let identity = admit(&endpoint.operation, &received, headers)?;
    let body = parse_body::<B>(&received.parts, &received.body)?;
    let Arrival { desk, parts, path, query, body: bytes, attention } = received;
    let shared = Arc::clone(&desk);
    let name = identity.caller.account();
    if let Some(current) = endpoint.current
        && parts.headers.contains_key(header::IF_MATCH)
    {
        let document = current(&shared, &identity.caller, &path)?;
        let tag = tags::tag(&document, endpoint.operation.volatile);
        tags::check(&parts.headers, &tag)?;
    }
    let mut call = Call { attention, ..call(desk, &parts, identity, (path, query, body)) };
    let key = match endpoint.status {
        StatusCode::CREATED => answers::key(&parts.headers)?,
        _ => None,
    };
    let Some(key) = key else { return reply(endpoint, &parts, &mut call) };
    let target = parts.uri.to_string();
    let content = [endpoint.operation.id.as_bytes(), target.as_bytes(), &bytes];
    let request = KeyedRequest { caller: &name, key, content };
    request.answer(&shared, || reply(endpoint, &parts, &mut call))
}

/// Parses the body of a request, which must be JSON if the operation has one.
fn parse_body<B: Part + DeserializeOwned>(parts: &Parts, body: &[u8]) -> Result<B, Problem> {
    if is_nothing::<B>() && body.is_empty() {
        return Ok(serde_json::from_str("{}").expect("nothing has no fields"));
    }
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !matches!(kind, "application/json" | "application/merge-patch+json") {
        let text = "send the body as JSON, with 'Content-Type: application/json'";
        return Err(Problem::new(Kind::UnsupportedMedia, text));
    }
    // A list would be taken for the fields of the object in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::invalid("the body is wrong: it must be a JSON object"));
    }
    let wrong = |error| Problem::invalid(format!("the body is wrong: {error}"));
    let (may_have_nul, may_have_list) = (has_escaped_nul(body), body.contains(&b'['));
    if may_have_nul || may_have_list {
        let document: Value = serde_json::from_slice(body).map_err(wrong)?;
        if may_have_nul && has_nul(&document) {
            return Err(Problem::invalid("the body is wrong: a text cannot have a NUL"));
        }
        if may_have_list && let Some(field) = shape::list_for_object::<B>(&document) {
            let text = format!("the body is wrong: '{field}' must be an object, and not a list");
            return Err(Problem::invalid(text));
        }
    }
    serde_json::from_slice(body).map_err(wrong)
}

/// Returns true if the text of a JSON document may have a NUL.
fn has_escaped_nul(json: &[u8]) -> bool {
    json.windows(6).any(|six| six == br"\u0000")
}

/// Returns true if a text of the document has a NUL: no name has one, and not every database keeps
/// it.
fn has_nul(document: &Value) -> bool {
    match document {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn reply<P, Q, B, T: Serialize + 'static>(
    endpoint: &Endpoint<P, Q, B, T>,
    parts: &Parts,
    call: &mut Call<P, Q, B>,
) -> Result<Reply, Problem> {
    let answer = (endpoint.handler)(call)?;
    let mut headers = std::mem::take(&mut call.headers);
    if is_nothing::<T>() {
        return Ok(Reply { status: StatusCode::NO_CONTENT, headers, body: Vec::new() });
    }
    let body = document(&answer);
    let mut status = endpoint.status;
    if matches!(parts.method, Method::GET | Method::HEAD) {
        let tag = tags::tag(&body, endpoint.operation.volatile);
        if tags::is_known(&parts.headers, &tag) {
            status = StatusCode::NOT_MODIFIED;
        }
        headers.insert(header::ETAG, tag);
    }
    let body = if status == StatusCode::NOT_MODIFIED { Vec::new() } else { body };
    Ok(Reply { status, headers, body })
}

/// Returns the JSON of an answer. A program that shows it as it is, such as curl, sends nothing to
/// a terminal that the terminal obeys.
pub(crate) fn document<T: Serialize>(answer: &T) -> Vec<u8> {
    let json = serde_json::to_string(answer).expect("answers have only text as keys");
    model::plain_json(json).into_bytes()
}

fn response(reply: Reply) -> Response<Body> {
    let Reply { status, headers, body } = reply;
    let has_body = !body.is_empty();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if has_body {
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
    }
    response
}

/// Adds the headers of every answer.
pub(crate) fn finish(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let fixed = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_nothing_that_a_terminal_obeys() {
        let path = "/a\u{1b}[2J\u{9b}31m\n\u{202e}b";
        let json = document(&path);
        let text = std::str::from_utf8(&json).expect("is text");
        assert!(!text.contains(model::is_unprintable), "{text:?}");
        assert_eq!(serde_json::from_slice::<String>(&json).expect("is JSON"), path);
    }

    #[test]
    fn a_list_is_no_body() {
        #[derive(serde::Deserialize, JsonSchema)]
        struct LimitsBody {
            nodes: u64,
        }
        #[derive(serde::Deserialize, JsonSchema)]
        struct NameBody {
            name: String,
            limits: Option<LimitsBody>,
        }
        let json = (header::CONTENT_TYPE, "application/json");
        let request = axum::http::Request::builder().header(json.0, json.1).body(());
        let (parts, ()) = request.expect("is a request").into_parts();
        let parse = |body: &str| parse_body::<NameBody>(&parts, body.as_bytes());
        assert_eq!(parse(" {\"name\":\"a\"}").map(|body| body.name), Ok("a".to_owned()));
        let whole = parse("{\"name\":\"[\",\"limits\":{\"nodes\":7}}");
        assert_eq!(whole.map(|body| body.limits.map(|limits| limits.nodes)), Ok(Some(7)));
        let refused = parse("{\"name\":\"a\",\"limits\":[7]}").map(|body| body.name);
        let refused = refused.expect_err("a list is no object");
        assert!(refused.detail.contains("'limits' must be an object"), "{refused:?}");
        for wrong in ["[\"a\"]", "\"a\"", "null", "", " "] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_nul_in_any_text_of_a_body_is_found() {
        for (json, expected) in [
            (r#"{"name":"a\u0000"}"#, true),
            (r#"{"a\u0000":1}"#, true),
            (r#"{"list":[1,["\u0000"]]}"#, true),
            (r#"{"name":"a\\u0000"}"#, false),
            (r#"{"name":"a","number":0}"#, false),
        ] {
            let document = serde_json::from_str(json).expect("is JSON");
            let found = has_escaped_nul(json.as_bytes()) && has_nul(&document);
            assert_eq!(found, expected, "{json}");
        }
    }
}
