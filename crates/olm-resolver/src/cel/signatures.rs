//! The standard functions and operators of CEL with their argument and result types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// One line per function. The name of a method is prefixed with `self.`; its first type is that of the
/// receiver.
const STANDARD: &str = "
_+_ int,int->int uint,uint->uint double,double->double string,string->string bytes,bytes->bytes timestamp,duration->timestamp duration,timestamp->timestamp duration,duration->duration
_-_ int,int->int uint,uint->uint double,double->double timestamp,timestamp->duration timestamp,duration->timestamp duration,duration->duration
_*_ int,int->int uint,uint->uint double,double->double
_/_ int,int->int uint,uint->uint double,double->double
_%_ int,int->int uint,uint->uint
-_ int->int double->double
_<_ bool,bool->bool int,int->bool uint,uint->bool double,double->bool string,string->bool bytes,bytes->bool timestamp,timestamp->bool duration,duration->bool
_<=_ bool,bool->bool int,int->bool uint,uint->bool double,double->bool string,string->bool bytes,bytes->bool timestamp,timestamp->bool duration,duration->bool
_>_ bool,bool->bool int,int->bool uint,uint->bool double,double->bool string,string->bool bytes,bytes->bool timestamp,timestamp->bool duration,duration->bool
_>=_ bool,bool->bool int,int->bool uint,uint->bool double,double->bool string,string->bool bytes,bytes->bool timestamp,timestamp->bool duration,duration->bool
_&&_ bool,bool->bool
_||_ bool,bool->bool
!_ bool->bool
@not_strictly_false bool->bool
bool bool->bool string->bool
int int->int uint->int double->int string->int timestamp->int
uint uint->uint int->uint double->uint string->uint
double double->double int->double uint->double string->double
string string->string bool->string int->string uint->string double->string bytes->string timestamp->string duration->string
bytes bytes->bytes string->bytes
timestamp timestamp->timestamp string->timestamp int->timestamp
duration duration->duration string->duration int->duration
dyn dyn->dyn
type dyn->type
size string->int bytes->int list->int map->int
self.size string->int bytes->int list->int map->int
matches string,string->bool
self.matches string,string->bool
self.contains string,string->bool
self.startsWith string,string->bool
self.endsWith string,string->bool
self.getFullYear timestamp->int timestamp,string->int
self.getMonth timestamp->int timestamp,string->int
self.getDayOfYear timestamp->int timestamp,string->int
self.getDayOfMonth timestamp->int timestamp,string->int
self.getDate timestamp->int timestamp,string->int
self.getDayOfWeek timestamp->int timestamp,string->int
self.getHours timestamp->int timestamp,string->int duration->int
self.getMinutes timestamp->int timestamp,string->int duration->int
self.getSeconds timestamp->int timestamp,string->int duration->int
self.getMilliseconds timestamp->int timestamp,string->int duration->int
semver_compare dyn,dyn->int
";

/// Argument and result types of a function.
pub(super) struct Overload {
    pub(super) takes: Vec<Type>,
    pub(super) gives: Type,
}

/// Returns the overloads of a function, or of a method if `method`.
pub(super) fn overloads(name: &str, method: bool) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(read);
    let found = if method {
        TABLE.get(format!("self.{name}").as_str())
    } else {
        TABLE.get(name)
    };
    found.map(Vec::as_slice)
}

fn read() -> BTreeMap<&'static str, Vec<Overload>> {
    let overload = |text: &str| {
        let (takes, gives) = text.split_once("->").unwrap_or((text, ""));
        Overload {
            takes: takes.split(',').map(Type::named).collect(),
            gives: Type::named(gives),
        }
    };
    STANDARD
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').map(overload).collect()))
        .collect()
}
