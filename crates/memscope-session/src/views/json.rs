//! Views for programs. `schema` grows by one whenever something that was there means something else.
use super::diff::Difference;
use super::names::{FrameId, FramePosition, Language, Names};
use super::profile::FunctionShare;
use super::reading::{At, View, pool_label};
use super::role::Role;
use super::tree::CallTree;
use memscope_analysis::Held;
use serde_json::{Value, json};

const SCHEMA: u32 = 1;

/// What a view is of.
fn subject(view: &View) -> Value {
    let step = match view.at {
        At::Step(number) => Some(number),
        _ => None,
    };
    json!({
        "pid": view.info.pid,
        "command": view.info.command,
        "memory": pool_label(view.device, view.pool),
        "device": view.device.to_string(),
        "pool": view.pool.name(),
        "at": match view.at {
            At::Peak => "peak",
            At::End => "end",
            At::Main => "main",
            At::After(_) => "time",
            At::Step(_) => "step",
            At::Total => "total",
        },
        "step": step,
        "after_ns": view.after_ns,
        "bytes": view.profile.total.bytes,
        "blocks": view.profile.total.blocks,
    })
}

fn held(held: Held) -> Value {
    json!({ "bytes": held.bytes, "blocks": held.blocks })
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Own => "own",
        Role::Library => "library",
        Role::Wrapper => "wrapper",
        Role::Import => "import",
        Role::Interpreter => "interpreter",
        Role::Outset => "start",
    }
}

fn frame(id: FrameId, names: &Names) -> Value {
    let named = names.frame(id);
    let function = names.function(named.function);
    let mut value = json!({
        "function": function.name,
        "file": function.file,
        "language": match function.language { Language::Native => "c", Language::Python => "python" },
        "role": role(function.role),
    });
    match named.position {
        FramePosition::Line(line) => value["line"] = line.into(),
        FramePosition::Offset(offset) => value["offset"] = offset.into(),
        FramePosition::Unknown => {}
    }
    value
}

pub fn top(view: &View, shares: &[FunctionShare], site_count: usize) -> String {
    let names = &view.names;
    let functions: Vec<Value> = shares
        .iter()
        .map(|share| {
            let function = names.function(share.function);
            json!({
                "function": function.name,
                "file": function.file,
                "language": match function.language { Language::Native => "c", Language::Python => "python" },
                "role": role(function.role),
                "inclusive": held(share.inclusive),
                "own": held(share.own),
            })
        })
        .collect();
    let sites: Vec<Value> = super::rows::users_first(view.profile.sites(names), view.profile.total, site_count)
        .iter()
        .map(|site| {
            json!({
                "bytes": site.held.bytes,
                "blocks": site.held.blocks,
                "own": !site.foreign,
                "frames": site.frames.iter().map(|id| frame(*id, names)).collect::<Vec<_>>(),
                "via": site.via.map(|id| frame(id, names)),
            })
        })
        .collect();
    printed(json!({ "schema": SCHEMA, "of": subject(view), "functions": functions, "sites": sites }))
}

pub fn tree(view: &View, tree: &CallTree, least: f64) -> String {
    // Depth is bounded by the number of frames of a stack, 2048.
    fn node(tree: &CallTree, at: usize, names: &Names, least: u64) -> Value {
        let node_at = tree.node(at);
        let mut value = match node_at.frame {
            Some(id) => frame(id, names),
            None => json!({ "function": tree.label(at, names) }),
        };
        value["inclusive"] = held(node_at.inclusive);
        value["own"] = held(node_at.own);
        let children = node_at.children.iter().filter(|child| tree.node(**child).inclusive.bytes >= least);
        value["children"] = children.map(|child| node(tree, *child, names, least)).collect();
        value
    }
    let least = (tree.root().inclusive.bytes as f64 * least) as u64;
    printed(json!({ "schema": SCHEMA, "of": subject(view), "tree": node(tree, 0, &view.names, least) }))
}

pub fn diff(base: &View, compared: &View, difference: &Difference, count: usize) -> String {
    let sites: Vec<Value> = difference
        .sites
        .iter()
        .filter(|site| site.bytes() != 0)
        .take(count)
        .map(|site| {
            json!({
                "bytes": number(site.bytes()),
                "blocks": number(site.blocks()),
                "base": held(site.base),
                "compared": held(site.compared),
                "own": !site.foreign,
                "site": site.frames,
                "via": site.via,
            })
        })
        .collect();
    let bytes = i128::from(difference.compared.bytes) - i128::from(difference.base.bytes);
    printed(json!({
        "schema": SCHEMA,
        "base": subject(base),
        "compared": subject(compared),
        "bytes": number(bytes),
        "sites": sites,
    }))
}

fn number(value: i128) -> Value {
    i64::try_from(value).map_or(Value::Null, Value::from)
}

fn printed(value: Value) -> String {
    format!("{value:#}\n")
}
