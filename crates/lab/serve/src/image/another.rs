//! How one device differs from another.

use device::DeviceSpec;
use serde_json::Value;

/// The first key in which the device at hand differs from the one that was asked for; none if they are the same.
pub(crate) fn difference(held: &DeviceSpec, given: &DeviceSpec) -> Option<String> {
    if held == given {
        return None;
    }
    let value = |spec| serde_json::to_value(spec).unwrap_or_default();
    let first = first_difference("", &value(held), &value(given));
    // Two that differ in nothing that is written have the same description.
    first.map(|(key, held, given)| format!("{key} is {held}, not {given}"))
}

fn first_difference(key: &str, held: &Value, given: &Value) -> Option<(String, String, String)> {
    if held == given {
        return None;
    }
    if let (Value::Object(one), Value::Object(other)) = (held, given) {
        let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
        return keys.filter(|name| name.as_str() != "summary").find_map(|name| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            let of =
                |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
            first_difference(&key, &of(one), &of(other))
        });
    }
    Some((key.to_owned(), held.to_string(), given.to_string()))
}
