//! Values of views, made of values of Holdfast.

use dsm::admin::view::Value;
use model::ServerTime;

use crate::moment;

/// Returns a time as it stands in a view, by the clock on the wall.
pub(in crate::commands::dsmadmc) fn shown_time(time: ServerTime) -> String {
    moment::zoned(time).strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()
}

pub(super) fn time(time: ServerTime) -> Value {
    Value::Text(shown_time(time))
}

pub(super) fn optional_time(moment: Option<ServerTime>) -> Value {
    moment.map_or(Value::Missing, time)
}

/// Returns text that is bytes in Holdfast, with escapes where it is not UTF-8.
pub(super) fn name(bytes: &[u8]) -> Value {
    Value::Text(model::escaped(bytes))
}

pub(super) fn yes_or_no(is_yes: bool) -> Value {
    (if is_yes { "YES" } else { "NO" }).into()
}

/// Returns a number of bytes in megabytes.
#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
pub(super) fn megabytes(bytes: u64) -> Value {
    Value::Real(bytes as f64 / f64::from(1 << 20))
}

/// Returns a part in percent; missing if the whole is not known.
#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
pub(super) fn percent(part: u64, whole: Option<u64>) -> Value {
    match whole {
        Some(whole) if whole > 0 => Value::Real(part as f64 * 100.0 / whole as f64),
        _ => Value::Missing,
    }
}

/// Returns the name of the server with this address.
pub(in crate::commands::dsmadmc) fn name_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    if host.is_empty() { "HOLDFAST".to_owned() } else { host.to_owned() }
}

/// Returns the host of an address, which has a port or none.
pub(super) fn host_of(address: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(_) => address.to_owned(),
        Err(_) => name_of(address),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::DateTime;

    use super::super::bounds::instant;
    use super::*;

    #[test]
    fn parts_are_percentages_of_known_wholes() {
        assert_eq!(percent(1, Some(4)), Value::Real(25.0));
        assert_eq!((percent(1, None), percent(0, Some(0))), (Value::Missing, Value::Missing));
        assert_eq!(megabytes(3 << 19), Value::Real(1.5));
    }

    #[test]
    fn a_server_is_called_by_its_host() {
        assert_eq!(name_of("backup.example.org:1500"), "backup.example.org");
        assert_eq!(name_of("[::1]:1500"), "[::1]");
        assert_eq!(name_of(":1500"), "HOLDFAST");
        assert_eq!((host_of("::1").as_str(), host_of("10.0.0.1:7").as_str()), ("::1", "10.0.0.1"));
    }

    #[test]
    fn times_are_those_of_the_clock_on_the_wall() {
        let noon: DateTime = "2026-11-26T12:00:00".parse().expect("a time");
        let at = instant(noon).expect("exists");
        assert_eq!(shown_time(at), "2026-11-26 12:00:00.000000");
    }
}
