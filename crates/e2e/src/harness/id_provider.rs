//! A provider of OpenID Connect: `oidc-provider` of npm, with the script in `oidc/`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::keeper::certificate;
use super::port::free_port;
use super::scripts::Scripts;

/// A provider of OpenID Connect, which ends with the test. Everybody signs in there with any login
/// and any password.
#[derive(Debug)]
pub struct IdProvider {
    process: Child,
    issuer: String,
    redirect: String,
    /// Cookies of the browser that `curl` plays.
    jar: PathBuf,
    authority: Option<PathBuf>,
}

/// Code and state with which a browser comes back from the provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Return {
    pub code: String,
    pub state: String,
}

impl Drop for IdProvider {
    fn drop(&mut self) {
        self.stop();
    }
}

impl IdProvider {
    /// Name and secret of the service at the provider.
    pub const CLIENT: &str = "holdfast";
    pub const SECRET: &str = "a secret of many letters for signatures";

    /// Starts a provider that sends browsers back to `redirect`; its files go into the new folder
    /// `folder`. `options` are those of the script. Returns `None` on a machine without Node.
    pub fn start(folder: &Path, redirect: &str, options: Value) -> Option<Self> {
        Self::run(folder, redirect, options, None)
    }

    /// Starts a provider with TLS, whose certificate is of an authority of its own.
    pub fn start_with_tls(folder: &Path, redirect: &str) -> Option<Self> {
        let [leaf, key, authority] = certificate(folder);
        Self::run(folder, redirect, json!({ "tls": [leaf, key] }), Some(authority))
    }

    fn run(
        folder: &Path,
        redirect: &str,
        options: Value,
        authority: Option<PathBuf>,
    ) -> Option<Self> {
        static SCRIPTS: OnceLock<Option<Scripts>> = OnceLock::new();
        let scripts = SCRIPTS.get_or_init(|| Scripts::prepare("oidc")).clone()?;
        fs::create_dir_all(folder).expect("a folder");
        let port = free_port();
        let mut node = Command::new(&scripts.node);
        node.current_dir(&scripts.folder)
            .args(["provider.mjs", &port.to_string(), redirect])
            .arg(options.to_string());
        let node = node.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = node.expect("Node runs");
        let mut lines = BufReader::new(process.stdout.take().expect("is piped")).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line == "ready");
        assert!(is_ready, "the provider does not start");
        // The rest is read, so that the provider never waits.
        std::thread::spawn(move || lines.for_each(drop));
        let issuer = match authority {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        let (redirect, jar) = (redirect.to_owned(), folder.join("jar"));
        Some(Self { process, issuer, redirect, jar, authority })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The certificate of the authority of a provider with TLS.
    pub fn authority(&self) -> &Path {
        self.authority.as_deref().expect("the provider has TLS")
    }

    /// Ends the provider. It answers nobody then.
    pub fn stop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// Sends a request as a browser does. Returns the address to which the answer leads.
    #[track_caller]
    fn go(&self, url: &str, form: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--output", "/dev/null"])
            .args(["--write-out", "%{redirect_url}", "--cookie"])
            .arg(&self.jar)
            .arg("--cookie-jar")
            .arg(&self.jar);
        if let Some(authority) = &self.authority {
            curl.arg("--cacert").arg(authority);
        }
        for field in form {
            curl.args(["--data", field]);
        }
        let output = curl.arg(url).output().expect("curl runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl {url}: {error}");
        String::from_utf8(output.stdout).expect("an address")
    }

    /// Signs a person in at the provider, in a browser that nobody has used. `url` is the address
    /// to which the service has sent the browser.
    #[track_caller]
    pub fn sign_in(&self, url: &str, login: &str) -> Return {
        drop(fs::remove_file(&self.jar));
        let asked = self.go(url, &[]);
        let login = format!("login={login}");
        let signed = self.go(&asked, &["prompt=login", &login, "password=any"]);
        let asked = self.go(&signed, &[]);
        let agreed = self.go(&asked, &["prompt=consent"]);
        let back = self.go(&agreed, &[]);
        let query = back.strip_prefix(&format!("{}?", self.redirect));
        let query = query.unwrap_or_else(|| panic!("does not come back: {back}"));
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|pair| pair.0 == name);
            found.unwrap_or_else(|| panic!("no {name}: {back}")).1.to_owned()
        };
        Return { code: value("code"), state: value("state") }
    }
}
