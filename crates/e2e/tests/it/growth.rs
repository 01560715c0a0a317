//! The growth of pools and domains, as requests see it.

use serde_json::{Value, json};

use crate::api::Provider;
use crate::risks::{tenant, wait_for, watch_certificates};

#[test]
fn a_tenant_sees_the_growth_of_the_own_domain_only() {
    let mut service = Provider::new();
    let lab = tenant(&service, "LAB");
    tenant(&service, "CLINIC");
    let stranger = service.person("owner-of-nothing", &[]);
    watch_certificates(&mut service);
    let names = |list: &Value| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        let noted = items.filter(|item| item["days"][0]["bytes"].as_u64() > Some(0));
        noted.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let is_noted = |growth: &Value| names(&growth["domains"]).len() == 2;
    let all = wait_for(&service.root, "/v1/growth", is_noted);
    assert_eq!(names(&all["pools"]), ["PRIMARY"], "{all}");
    let own = lab.get("/v1/growth?days=1").expect(200).json();
    assert_eq!((names(&own["domains"]), &own["pools"]), (vec!["LAB".to_owned()], &json!([])));
    assert_eq!(own["domains"].as_array().unwrap().len(), 1, "{own}");
    let today = jiff::Timestamp::now().to_string();
    assert_eq!(own["domains"][0]["days"][0]["day"], today[..10]);
    let nothing = stranger.get("/v1/growth").expect(200).json();
    assert_eq!(nothing, json!({ "pools": [], "domains": [] }));
    for wrong in ["0", "401", "-1", "many"] {
        service.root.get(&format!("/v1/growth?days={wrong}")).expect(400);
    }
}
