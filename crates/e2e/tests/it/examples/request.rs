//! Requests of an operation, as its examples have them.

use serde_json::Value;

/// An operation of the document.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    /// The operation's part of the document.
    pub(super) described: Value,
}

/// A request without the address of the server.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

impl Operation {
    /// Returns all operations of a document.
    pub(super) fn all(document: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, described) in methods.as_object().unwrap() {
                all.push(Self {
                    id: described["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    described: described.clone(),
                });
            }
        }
        all
    }

    /// Returns the names of the examples of the body; one empty name for an operation without one.
    pub(super) fn examples(&self) -> Vec<String> {
        let Some(body) = self.described.get("requestBody") else { return vec![String::new()] };
        let examples = media(&body["content"])["examples"].as_object().cloned();
        examples.unwrap_or_default().keys().cloned().collect()
    }

    /// Returns the schema of the body.
    pub(super) fn body_schema(&self) -> Option<Value> {
        let body = self.described.get("requestBody")?;
        Some(media(&body["content"])["schema"].clone())
    }

    /// Returns the status of success, and the description of its answer.
    pub(super) fn success(&self) -> (u16, &Value) {
        let responses = self.described["responses"].as_object().unwrap();
        let mut found = responses.iter().filter(|(status, _)| *status != "default");
        let (status, answer) = found.next().expect("an operation succeeds");
        (status.parse().expect("a status is a number"), answer)
    }

    /// Returns the requests of an example. Parameters that may be absent are tried one by one, and
    /// all together, if the operation only reads.
    pub(super) fn requests(
        &self,
        example: &str,
        value: impl Fn(&str, &Value) -> Value,
    ) -> Vec<Request> {
        let parameters = self.described["parameters"].as_array().cloned().unwrap_or_default();
        let mut path = self.path.clone();
        let (mut needed, mut optional) = (Vec::new(), Vec::new());
        for parameter in parameters.iter().filter(|one| one.get("example").is_some()) {
            let name = parameter["name"].as_str().unwrap();
            let text = match value(name, &parameter["example"]) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            match (parameter["in"].as_str().unwrap(), &parameter["required"]) {
                ("path", _) => path = path.replace(&format!("{{{name}}}"), &encoded(&text)),
                (_, Value::Bool(true)) => needed.push(format!("{name}={}", encoded(&text))),
                _ => optional.push(format!("{name}={}", encoded(&text))),
            }
        }
        assert!(!path.contains('{'), "{}: {path} has a parameter without an example", self.id);
        let body = self.described.get("requestBody");
        let body = body.map(|body| media(&body["content"])["examples"][example]["value"].clone());
        let request = |more: &[String]| {
            let query = [&needed[..], more].concat();
            let between = if query.is_empty() { "" } else { "?" };
            Request { path: format!("{path}{between}{}", query.join("&")), body: body.clone() }
        };
        if self.method != "GET" {
            return vec![request(&optional)];
        }
        let mut requests = vec![request(&[])];
        requests.extend(optional.iter().map(|one| request(std::slice::from_ref(one))));
        if optional.len() > 1 {
            requests.push(request(&optional));
        }
        requests
    }
}

/// Returns the part of a content for its only media type.
pub(super) fn media(content: &Value) -> &Value {
    let mut all = content.as_object().expect("a content has a media type").values();
    all.next().expect("one media type")
}

/// Returns text as a part of a path or of a query.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,@".contains(&byte);
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
