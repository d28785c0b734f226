//! Health of a Subscription for generic tools: Argo CD with Lua, Flux with the rules of kstatus.

use mlua::{Function, Lua, Value as LuaValue};
use serde_json::Value;

/// Argo CD's rules in a Lua interpreter.
pub(crate) struct ArgoCd {
    lua: Lua,
    rules: Function,
}

impl ArgoCd {
    pub(crate) fn new() -> Self {
        let lua = Lua::new();
        let rules = lua
            .load(include_str!("argo_cd_rules.lua"))
            .into_function()
            .unwrap();
        Self { lua, rules }
    }

    /// Returns `Healthy`, `Progressing` or `Degraded`.
    pub(crate) fn judge(&self, subscription: &Value) -> String {
        self.lua.globals().set("obj", self.value(subscription)).unwrap();
        self.rules.call(()).unwrap()
    }

    fn value(&self, value: &Value) -> LuaValue {
        match value {
            Value::Null => LuaValue::Nil,
            Value::Bool(value) => LuaValue::Boolean(*value),
            Value::Number(value) => LuaValue::Number(value.as_f64().unwrap()),
            Value::String(value) => LuaValue::String(self.lua.create_string(value).unwrap()),
            Value::Array(values) => {
                let values = values.iter().map(|value| self.value(value));
                LuaValue::Table(self.lua.create_sequence_from(values).unwrap())
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| (key.as_str(), self.value(value)));
                LuaValue::Table(self.lua.create_table_from(fields).unwrap())
            }
        }
    }
}

/// Applies the generic rules of kstatus: `Current`, `InProgress`, `Failed` or `Terminating`.
pub(crate) fn kstatus(object: &Value) -> &'static str {
    let is = |type_: &str| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == type_);
        found.next().map(|condition| condition["status"] == "True")
    };
    let observed = &object["status"]["observedGeneration"];
    if !object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if !observed.is_null() && *observed != object["metadata"]["generation"]
        || is("Reconciling") == Some(true)
    {
        "InProgress"
    } else if is("Stalled") == Some(true) {
        "Failed"
    } else if is("Ready") == Some(false) {
        "InProgress"
    } else {
        "Current"
    }
}
