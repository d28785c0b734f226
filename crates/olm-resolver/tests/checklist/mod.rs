//! Promises of the documents about resolution, each by its id with the scenarios that verify it.

use super::{differences, folder};

fn holds(scenarios: &[&str]) {
    let files = scenarios.iter().map(|name| folder().join(format!("{name}.yaml")));
    let wrong: Vec<String> = files.flat_map(|file| differences(&file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn csv_005_replaces_names_the_one_it_replaces() {
    holds(&["replaces-one-step"]);
}

#[test]
fn csv_006_skips_lists_names() {
    holds(&["skips", "skips-installed-bad-release"]);
}

#[test]
fn csv_007_skip_range_annotation_holds_a_range() {
    holds(&["skip-range", "skip-range-below-head"]);
}

#[test]
fn csv_008_the_version_is_what_ranges_compare() {
    holds(&["skip-range-outside", "dependency-by-package"]);
}

#[test]
fn cat_010_higher_priority_wins_for_dependencies() {
    holds(&["dependency-catalog-priority"]);
}

#[test]
fn hlt_001_the_source_binds_only_the_subscribed_package() {
    holds(&["dependency-from-another-catalog"]);
}

#[test]
fn upg_002_newest_means_channel_head() {
    holds(&["head-has-lower-version"]);
}

#[test]
fn upg_003_channels_are_entry_points_that_share_entries() {
    holds(&[
        "channels-share-entries",
        "channel-without-head",
        "channel-in-a-circle",
    ]);
}

#[test]
fn upg_004_each_channel_ends_at_its_head() {
    holds(&["channels-share-entries", "channels-share-entries-beta"]);
}

#[test]
fn upg_005_one_version_at_a_time() {
    holds(&["replaces-one-step"]);
}

#[test]
fn upg_008_skipped_releases_are_not_installed() {
    holds(&[
        "skipped-entry-not-installed-fresh",
        "dependency-only-by-skipped-entry",
    ]);
}

#[test]
fn upg_009_from_the_replaced_version_past_the_skipped() {
    holds(&["skips-installed-predecessor"]);
}

#[test]
fn upg_010_from_the_skipped_version() {
    holds(&["skips-installed-bad-release"]);
}

#[test]
fn upg_011_with_nothing_installed() {
    holds(&["skips-fresh"]);
}

#[test]
fn upg_012_every_entry_has_one_replacement() {
    holds(&["skips-installed-predecessor", "skips-installed-bad-release"]);
}

#[test]
fn upg_013_a_bad_release_is_never_installed_afterwards() {
    holds(&["skips-installed-predecessor", "skips-fresh"]);
}

#[test]
fn upg_014_one_csv_replaces_one_and_skips_several() {
    holds(&["skips", "skip-range"]);
}

#[test]
fn upg_015_skip_range_has_blangs_syntax() {
    holds(&["skip-range-below-head"]);
}

#[test]
fn upg_016_a_head_whose_range_holds_the_version_is_taken_at_once() {
    holds(&["skip-range"]);
}

#[test]
fn upg_017_outside_of_the_range_replaces_is_walked() {
    holds(&["skip-range-outside-walks-replaces"]);
}

#[test]
fn upg_018_elasticsearch() {
    holds(&["skip-range-z-stream", "skip-range-outside"]);
}

#[test]
fn upg_019_first_the_head_of_the_named_catalog() {
    holds(&["skip-range"]);
}

#[test]
fn upg_020_then_what_replaces_the_installed_one() {
    holds(&["replaces-one-step", "skip-range-outside-walks-replaces"]);
}

#[test]
fn upg_021_no_head_of_another_catalog() {
    holds(&["update-not-from-another-catalog"]);
}

#[test]
fn upg_022_no_successor_of_another_catalog() {
    holds(&["update-not-from-another-catalog"]);
}

#[test]
fn upg_023_z_streams_are_a_matter_of_the_graph() {
    holds(&["skip-range-z-stream", "head-has-lower-version"]);
}

#[test]
fn upg_024_every_z_stream_release_updates_to_the_latest() {
    holds(&["skip-range-z-stream", "skips-installed-bad-release"]);
}

#[test]
fn dep_001_nothing_is_installed_that_needs_what_nobody_provides() {
    holds(&["dependency-missing", "upgrade-half-of-a-mutual-pair"]);
}

#[test]
fn dep_002_no_update_breaks_a_dependent() {
    holds(&[
        "upgrade-would-break-dependent",
        "upgrade-into-other-package-would-break-dependent",
    ]);
}

#[test]
fn dep_003_properties_and_constraints_become_a_formula() {
    holds(&["dependency-second-choice", "isolation-ends-at-what-is-installed"]);
}

#[test]
fn dep_004_package_and_version_are_a_property() {
    holds(&["dependency-by-package", "two-channels-of-one-package"]);
}

#[test]
fn dep_005_provided_apis_are_properties() {
    holds(&["dependency-by-api", "one-provider-per-api"]);
}

#[test]
fn dep_008_unknown_properties_mean_nothing() {
    holds(&["unknown-property", "constraint-cel"]);
}

#[test]
fn dep_011_a_package_dependency_has_a_version_or_a_range() {
    holds(&["dependency-exact-version", "dependency-by-package"]);
}

#[test]
fn dep_012_an_api_dependency_is_met_by_its_provider() {
    holds(&["dependency-by-api"]);
}

#[test]
fn dep_013_both_dependencies_of_the_example_are_installed() {
    holds(&["dependencies-package-and-api"]);
}

#[test]
fn dep_014_a_range_may_exclude_one_version() {
    holds(&["dependency-range-with-exclusion"]);
}

#[test]
fn dep_015_a_range_may_be_a_window() {
    holds(&["dependency-range-window"]);
}

#[test]
fn dep_016_a_minimum_version_beside_an_api() {
    holds(&["dependency-api-with-minimum-version"]);
}

#[test]
fn dep_017_plain_dependencies_may_be_met_by_two_operators() {
    holds(&["dependencies-package-and-api"]);
}

#[test]
fn dep_018_an_administrator_cannot_override_dependencies() {
    holds(&["dependency-missing", "constraint-cel-unmet"]);
}

#[test]
fn dep_019_a_dependency_is_installed_in_the_same_namespace() {
    holds(&["dependency-by-api"]);
}

#[test]
fn dep_020_an_installed_operator_meets_a_dependency_as_well() {
    holds(&["dependency-met-by-installed"]);
}

#[test]
fn dep_021_a_maximum_version_holds_back_updates() {
    holds(&["upgrade-held-by-range"]);
}

#[test]
fn dep_022_resolution_is_per_namespace() {
    holds(&["other-namespaces-do-not-matter", "copied-csv-does-not-matter"]);
}

#[test]
fn dep_023_an_api_property_serves_any_bundle_that_requires_it() {
    holds(&["dependency-by-api"]);
}

#[test]
fn dep_024_a_required_package_is_installed() {
    holds(&["dependency-by-package"]);
}

#[test]
fn dep_025_a_required_api_is_installed() {
    holds(&["dependency-by-api", "upgrade-brings-new-dependency"]);
}

#[test]
fn dep_026_an_update_that_drops_a_needed_api_waits() {
    holds(&["upgrade-would-break-dependent"]);
}

#[test]
fn dep_027_a_mutual_pair_moves_together() {
    holds(&["upgrade-of-a-mutual-pair", "upgrade-half-of-a-mutual-pair"]);
}

#[test]
fn dep_028_a_provider_owns_the_api() {
    holds(&["dependency-met-by-installed"]);
}

#[test]
fn con_001_a_constraint_has_one_of_its_keys() {
    holds(&[
        "constraint-all",
        "constraint-any",
        "constraint-not",
        "constraint-cel",
        "malformed-requirement-left-out",
    ]);
}

#[test]
fn con_002_the_failure_message_is_reported() {
    holds(&["constraint-cel-unmet", "constraint-message"]);
}

#[test]
fn con_003_gvk_means_what_the_property_means() {
    holds(&["constraint-any-example"]);
}

#[test]
fn con_004_package_means_what_the_property_means() {
    holds(&["constraint-nested"]);
}

#[test]
fn con_005_a_cel_rule_is_evaluated_over_properties() {
    holds(&["constraint-cel", "constraint-cel-version"]);
}

#[test]
fn con_006_cel_sees_bundle_properties() {
    holds(&["constraint-cel-version"]);
}

#[test]
fn con_007_certified_only() {
    holds(&["constraint-cel", "constraint-cel-unmet"]);
}

#[test]
fn con_008_and_within_one_operator_or_as_well() {
    holds(&["constraint-cel", "constraint-cel-any"]);
}

#[test]
fn con_009_all_parts_must_be_met() {
    holds(&["constraint-all"]);
}

#[test]
fn con_010_any_part_is_enough() {
    holds(&["constraint-any", "constraint-any-example"]);
}

#[test]
fn con_011_not_rules_bundles_out() {
    holds(&["constraint-not"]);
}

#[test]
fn con_012_not_within_all() {
    holds(&["constraint-not"]);
}

#[test]
fn con_014_nested_constraints_may_have_messages() {
    holds(&["constraint-message", "constraint-nested"]);
}

#[test]
fn con_015_compounds_nest() {
    holds(&["constraint-nested"]);
}

#[test]
fn con_016_either_branch_is_enough() {
    holds(&["constraint-nested"]);
}

#[test]
fn con_017_size_and_nesting_are_limited() {
    holds(&["constraint-nested-without-end"]);
}

#[test]
fn pref_001_higher_priority_catalogs_first() {
    holds(&["dependency-catalog-priority"]);
}

#[test]
fn pref_002_the_dependents_own_catalog_first() {
    holds(&["dependency-catalog-order"]);
}

#[test]
fn pref_003_the_default_channel_first() {
    holds(&["dependency-in-default-channel", "no-channel"]);
}

#[test]
fn pref_004_then_channels_by_name() {
    holds(&["dependency-channels-by-name", "no-channel-falls-back-by-name"]);
}

#[test]
fn pref_005_an_entry_of_the_preferred_channel() {
    holds(&["dependency-in-default-channel"]);
}

#[test]
fn pref_006_a_subscription_is_bound_to_its_channel() {
    holds(&["channel-restricts"]);
}

#[test]
fn pref_007_newer_entries_first() {
    holds(&[
        "channel-head",
        "dependency-channels-by-name",
        "dependency-only-in-older-entry",
    ]);
}

#[test]
fn pref_008_only_what_satisfies_the_subscription() {
    holds(&["channel-restricts", "replaces-one-step"]);
}

#[test]
fn pref_009_a_package_is_there_once() {
    holds(&["two-channels-of-one-package", "dependency-not-of-own-package"]);
}

#[test]
fn pref_010_the_choice_is_determined() {
    holds(&["dependency-catalog-order", "dependency-own-namespace-first"]);
}

#[test]
fn sch_019_skip_range_with_and_without_replaces() {
    holds(&["skip-range-and-replaces", "skip-range-alone-leaves-the-graph"]);
}

#[test]
fn opm_009_a_broken_bundle_is_left_by_an_edge() {
    holds(&["broken-bundle-left-by-an-edge"]);
}

#[test]
fn opm_010_an_entry_in_another_channel_makes_a_bundle_available() {
    holds(&["channels-share-entries", "channels-share-entries-beta"]);
}

#[test]
fn opm_011_skipping_a_later_release_moves_its_users() {
    holds(&["skipped-later-release"]);
}

#[test]
fn v1u_005_classic_finds_no_update_to_a_skipped_version() {
    holds(&["classic-no-update-to-a-skipped-version"]);
}
