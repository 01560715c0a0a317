//! Traces of the work, sent to a collector by OpenTelemetry's protocol over HTTP.
//!
//! Spans have the target [`model::TRACE`]. Without a collector no layer wants them, so that a span
//! costs one look at a flag.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use crate::error::CommandError;

/// Time that the collector has to take spans.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way of spans to a collector. The spans that wait are sent when this value is dropped.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Begins to send spans to the collector at `url`, as in `http://localhost:4318`. Does not
    /// connect: a collector that is away loses spans, and nothing else.
    pub(crate) fn start(url: &str) -> Result<Self, CommandError> {
        let unusable = |error: &dyn std::fmt::Display| {
            CommandError::new(format!("traces cannot be sent to {url}: {error}"))
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(unusable(&"give a URL such as http://localhost:4318"));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", url.trim_end_matches('/')))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| unusable(&error))?;
        let resource = Resource::builder_empty()
            .with_service_name("holdfast")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("host.name", sys::net::host_name()))
            .build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
        Ok(Self(provider.with_resource(resource).build()))
    }

    /// Returns the layer that takes spans, and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_traced = filter_fn(|what| what.is_span() && what.target() == model::TRACE);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("holdfast"))
            .with_location(false)
            .with_threads(false)
            .with_filter(is_traced.with_max_level_hint(LevelFilter::INFO))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that is away must not change the outcome of the command.
        if let Err(error) = self.0.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_a_url() {
        assert!(Traces::start("localhost:4318").is_err());
    }
}
