use super::*;

const BASE: &str = "/apis/packages.operators.coreos.com/v1";

fn asked(method: &str, path: &str) -> RequestInfo {
    let (path, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    RequestInfo::parse(method, path, query).unwrap()
}

/// Returns the needed permission as words: verb, namespace, resource, part, name.
fn needs(method: &str, path: &str) -> String {
    match asked(method, path).access {
        Access::Everybody => "everybody".to_owned(),
        Access::Authenticated => "authenticated".to_owned(),
        Access::Allowed(Attributes::Path { verb, path }) => format!("{verb} {path}"),
        Access::Allowed(Attributes::Resource {
            verb,
            namespace,
            resource,
            subresource,
            name,
            ..
        }) => format!("{verb} {namespace}:{resource}:{subresource}:{name}"),
    }
}

#[test]
fn paths_lead_to_what_is_served() {
    let rows = [
        ("/healthz", Route::Health),
        ("/livez", Route::Health),
        ("/readyz?verbose", Route::Readiness),
        ("/metrics", Route::Metrics),
        ("/version/", Route::Version),
        ("/apis", Route::Groups),
        ("/apis/packages.operators.coreos.com", Route::Group),
        ("/openapi/v2", Route::OpenApiV2),
        ("/openapi/v3", Route::OpenApiV3Paths),
        (
            "/openapi/v3/apis/packages.operators.coreos.com/v1?hash=x",
            Route::OpenApiV3,
        ),
        ("/debug/pprof/", Route::Profiles),
        ("/debug/pprof/heap", Route::Profiles),
        ("/debug", Route::Nothing),
        ("/apis/other/v1", Route::Nothing),
        ("/", Route::Nothing),
    ];
    for (path, route) in rows {
        assert_eq!(asked("GET", path).route, route, "{path}");
    }
    let of = |path: &str| asked("GET", &format!("{BASE}{path}")).route;
    assert_eq!(of(""), Route::Resources);
    assert_eq!(of("/packagemanifests"), Route::List(None));
    assert_eq!(
        of("/namespaces/ns/packagemanifests"),
        Route::List(Some("ns".to_owned()))
    );
    let (namespace, name) = ("ns".to_owned(), "a b".to_owned());
    assert_eq!(
        of("/namespaces/ns/packagemanifests/a%20b"),
        Route::Get { namespace, name }
    );
    let (namespace, name) = ("ns".to_owned(), "a".to_owned());
    assert_eq!(
        of("/namespaces/ns/packagemanifests/a/icon"),
        Route::Icon { namespace, name }
    );
    assert_eq!(of("/packagemanifests/a"), Route::Nothing);
    assert_eq!(of("/namespaces/ns/packagemanifests/a/status"), Route::Nothing);
    assert_eq!(of("/namespaces/ns"), Route::Nothing);
}

#[test]
fn what_has_to_be_allowed_is_what_the_api_server_asks_too() {
    let rows = [
        ("GET", "/healthz", "everybody"),
        ("GET", "/readyz", "everybody"),
        ("GET", "/apis", "authenticated"),
        ("GET", "/openapi/v2", "authenticated"),
        ("GET", "/metrics", "get /metrics"),
        ("GET", "/debug/pprof", "get /debug/pprof"),
    ];
    for (method, path, expected) in rows {
        assert_eq!(needs(method, path), expected);
    }
    let rows = [
        ("GET", "/packagemanifests", "list :packagemanifests::"),
        ("GET", "/packagemanifests?watch=true", "watch :packagemanifests::"),
        ("GET", "/packagemanifests?watch=false", "list :packagemanifests::"),
        (
            "GET",
            "/namespaces/ns/packagemanifests",
            "list ns:packagemanifests::",
        ),
        (
            "GET",
            "/namespaces/ns/packagemanifests?fieldSelector=metadata.name%3Da",
            "list ns:packagemanifests::a",
        ),
        (
            "GET",
            "/namespaces/ns/packagemanifests/a",
            "get ns:packagemanifests::a",
        ),
        (
            "HEAD",
            "/namespaces/ns/packagemanifests/a",
            "get ns:packagemanifests::a",
        ),
        (
            "GET",
            "/namespaces/ns/packagemanifests/a?watch=1",
            "get ns:packagemanifests::a",
        ),
        (
            "GET",
            "/namespaces/ns/packagemanifests/a/icon",
            "get ns:packagemanifests:icon:a",
        ),
        (
            "POST",
            "/namespaces/ns/packagemanifests",
            "create ns:packagemanifests::",
        ),
        (
            "PUT",
            "/namespaces/ns/packagemanifests/a",
            "update ns:packagemanifests::a",
        ),
        (
            "PATCH",
            "/namespaces/ns/packagemanifests/a",
            "patch ns:packagemanifests::a",
        ),
        (
            "DELETE",
            "/namespaces/ns/packagemanifests/a",
            "delete ns:packagemanifests::a",
        ),
        (
            "DELETE",
            "/namespaces/ns/packagemanifests",
            "deletecollection ns:packagemanifests::",
        ),
        ("GET", "/namespaces/ns/secrets/a", "get ns:secrets::a"),
        ("GET", "/namespaces/ns", "get :namespaces::ns"),
    ];
    for (method, path, expected) in rows {
        assert_eq!(
            needs(method, &format!("{BASE}{path}")),
            expected,
            "{method} {path}"
        );
    }
}

/// A path with two readings could be allowed as one thing and answered as another.
#[test]
fn what_is_allowed_is_what_is_answered() {
    for path in [
        "//apis//packages.operators.coreos.com/v1/namespaces/ns/packagemanifests/a/",
        "/apis/packages.operators.coreos.com/v1/namespaces/n%73/packagemanifests/%61",
        "/%61pis/packages.operators.coreos.com/v1/namespaces/ns/packagemanifests/a",
    ] {
        assert_eq!(needs("GET", path), "get ns:packagemanifests::a", "{path}");
        let Route::Get { namespace, name } = asked("GET", path).route else {
            unreachable!("{path} leads to a package");
        };
        assert_eq!((namespace.as_str(), name.as_str()), ("ns", "a"));
    }
    let encoded_slash = format!("{BASE}/namespaces/ns/packagemanifests/a%2Ficon");
    assert_eq!(needs("GET", &encoded_slash), "get ns:packagemanifests::a/icon");
}

#[test]
fn a_path_that_is_no_text_is_refused() {
    assert_eq!(RequestInfo::parse("GET", "/%ff", None).unwrap_err().code, 400);
    // A percent sign without two digits is kept literally.
    for path in ["/%", "/%4", "/%zz"] {
        assert_eq!(asked("GET", path).route, Route::Nothing, "{path}");
    }
    let asked = asked("GET", "/?a=%f&b=x+y%2B&&c");
    let values = ["a", "b", "c", "d"].map(|name| asked.parameter(name));
    assert_eq!(values, [Some("%f"), Some("x y+"), Some(""), None]);
}

#[test]
fn selectors_of_a_list_are_read() {
    let selectors = |query: &str| asked("GET", &format!("{BASE}/packagemanifests?{query}")).selectors();
    let (labels, fields) = selectors("labelSelector=a%3Db,+c&fieldSelector=metadata.name=d").unwrap();
    assert_ne!(
        (&labels, &fields),
        (&LabelSelector::default(), &FieldSelector::default())
    );
    assert_eq!(fields.name(), Some("d"));
    let everything = (LabelSelector::default(), FieldSelector::default());
    for query in ["", "limit=x&continue=y"] {
        assert_eq!(selectors(query).unwrap(), everything, "{query}");
    }
    for query in ["labelSelector=a+b", "fieldSelector=status.x=1"] {
        assert_eq!(selectors(query).unwrap_err().code, 400, "{query}");
    }
}
