//! Two reports side by side: every number that both have.

use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Prints each number of an earlier report beside that of this one, and their ratio.
pub(crate) fn print(earlier: &Path, report: &Value) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(earlier)
        .map_err(|error| format!("--against {}: {error}", earlier.display()))?;
    let before = numbers(&serde_json::from_str(&text)?);
    println!("against {}", earlier.display());
    println!("  {:<52} {:>16} {:>16} {:>8}", "figure", "before", "now", "ratio");
    for (name, now) in numbers(report) {
        match before.get(&name) {
            Some(before) => {
                println!("  {name:<52} {before:>16.4} {now:>16.4} {:>8.3}", now / before);
            }
            None => println!("  {name:<52} {:>16} {now:>16.4}", "none"),
        }
    }
    Ok(())
}

/// The numbers of a report by the path of their keys; a row of a table by its first word.
fn numbers(report: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    collect("", report, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, f64>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Number(number) => {
            found.extend(number.as_f64().map(|number| (path.to_owned(), number)));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| collect(&below(key), value, found));
        }
        Value::Array(rows) => {
            for (place, row) in rows.iter().enumerate() {
                let fields = row.as_object();
                let name = fields.and_then(|fields| fields.values().find_map(Value::as_str));
                collect(&below(name.unwrap_or(&place.to_string())), row, found);
            }
        }
        _ => {}
    }
}
