//! Changes to documents as trees, so that the result is still a document and passes the parser.

use serde_json::{Value, json};

use super::Random;

/// Returns a value that code often handles wrongly.
fn odd(random: &mut Random) -> Value {
    let odd = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(18_446_744_073_709_551_615_u64),
        json!(""),
        json!(" "),
        json!("1.0.0"),
        json!("v1.0.0-rc.1+b"),
        json!(">=1.0.0 <2.0.0 || 3.x"),
        json!("olm.package"),
        json!("<a&b>\u{2028}\u{1f600}"),
        json!("a/b:c@sha256:0"),
        json!("%%%"),
        json!("x".repeat(70)),
        json!([]),
        json!({}),
        json!([[]]),
        json!({"": ""}),
    ];
    random.of(&odd).clone()
}

/// Collects pointers to all values below.
fn paths(value: &Value, at: &mut String, found: &mut Vec<String>) {
    // Enough to choose from.
    if found.len() > 2000 {
        return;
    }
    found.push(at.clone());
    let length = at.len();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                paths(item, at, found);
                at.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                at.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")));
                paths(item, at, found);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

fn choose<'a>(value: &'a mut Value, random: &mut Random) -> &'a mut Value {
    let mut found = Vec::new();
    paths(value, &mut String::new(), &mut found);
    let path = random.of(&found).clone();
    value.pointer_mut(&path).expect("a path that was found")
}

/// Makes one change; pieces are taken from `others`.
pub fn change(value: &mut Value, others: &[Value], random: &mut Random) {
    let mut donor = random.of(others).clone();
    let piece = choose(&mut donor, random).take();
    let place = choose(value, random);
    match (random.below(7), &mut *place) {
        (0, _) => *place = odd(random),
        (1, _) => *place = piece,
        (2, Value::Array(items)) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
        (2, Value::Object(map)) => {
            if let Some(key) = map.keys().nth(random.below(map.len())).cloned() {
                map.remove(&key);
            }
        }
        (3, Value::Array(items)) if !items.is_empty() => {
            let copy = random.of(items).clone();
            items.insert(random.below(items.len() + 1), copy);
        }
        (3 | 4, Value::Object(map)) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            if let Some(key) = keys.get(random.below(keys.len())) {
                let value = map.remove(key).unwrap_or_default();
                let key = match random.below(4) {
                    0 => key.to_uppercase(),
                    1 => format!("{key}x"),
                    2 => keys[random.below(keys.len())].clone(),
                    _ => String::new(),
                };
                map.insert(key, value);
            }
        }
        (4, Value::Array(items)) => items.push(piece),
        (5, Value::String(text)) => {
            let at = (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .collect::<Vec<_>>();
            let at = *random.of(&at);
            match random.below(3) {
                0 => text.truncate(at),
                1 => text.insert(
                    at,
                    *random.of(&['0', '.', '-', 'x', '"', '\n', '\u{e9}', ' ', '/', '<']),
                ),
                _ => *text = text.repeat(2),
            }
        }
        (6, _) => {
            let inner = place.take();
            *place = match random.below(2) {
                0 => json!([inner]),
                _ => json!({ "value": inner }),
            };
        }
        _ => *place = odd(random),
    }
}

/// Changes a few of the documents; there must be at least one. Pieces are taken from `others`, and `copied` makes a new document
/// from an existing one.
pub fn change_documents(
    values: &mut Vec<Value>,
    others: &[Value],
    copied: impl Fn(&Value, &mut Random) -> Value,
    random: &mut Random,
) {
    for _ in 0..=random.below(5) {
        let at = random.below(values.len());
        match random.below(12) {
            0 if values.len() > 1 => drop(values.remove(at)),
            1 => values.push(random.of(others).clone()),
            2 => {
                let copy = copied(&values[at], random);
                values.push(copy);
            }
            _ => change(&mut values[at], others, random),
        }
    }
}
