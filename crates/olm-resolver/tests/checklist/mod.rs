//! What the documents promise of resolution, each promise by its id with the scenarios that show it.

use super::{differences, folder};

macro_rules! promises {
    ($($name:ident: $($scenario:literal)+;)+) => {
        $(#[test]
        fn $name() {
            holds(&[$($scenario),+]);
        })+
    };
}

fn holds(scenarios: &[&str]) {
    let files = scenarios.iter().map(|name| folder().join(format!("{name}.yaml")));
    let wrong: Vec<String> = files.flat_map(|file| differences(&file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

promises! {
    csv_005_replaces_names_the_one_it_replaces: "replaces-one-step";
    csv_006_skips_lists_names: "skips" "skips-installed-bad-release";
    csv_007_skip_range_annotation_holds_a_range: "skip-range" "skip-range-below-head";
    csv_008_the_version_is_what_ranges_compare: "skip-range-outside" "dependency-by-package";
    cat_010_higher_priority_wins_for_dependencies: "dependency-catalog-priority";
    hlt_001_the_source_binds_only_the_subscribed_package: "dependency-from-another-catalog";
    upg_002_newest_means_channel_head: "head-has-lower-version";
    upg_003_channels_are_entry_points_that_share_entries: "channels-share-entries" "channel-without-head" "channel-in-a-circle";
    upg_004_each_channel_ends_at_its_head: "channels-share-entries" "channels-share-entries-beta";
    upg_005_one_version_at_a_time: "replaces-one-step";
    upg_008_skipped_releases_are_not_installed: "skipped-entry-not-installed-fresh" "dependency-only-by-skipped-entry";
    upg_009_from_the_replaced_version_past_the_skipped: "skips-installed-predecessor";
    upg_010_from_the_skipped_version: "skips-installed-bad-release";
    upg_011_with_nothing_installed: "skips-fresh";
    upg_012_every_entry_has_one_replacement: "skips-installed-predecessor" "skips-installed-bad-release";
    upg_013_a_bad_release_is_never_installed_afterwards: "skips-installed-predecessor" "skips-fresh";
    upg_014_one_csv_replaces_one_and_skips_several: "skips" "skip-range";
    upg_015_skip_range_has_blangs_syntax: "skip-range-below-head";
    upg_016_a_head_whose_range_holds_the_version_is_taken_at_once: "skip-range";
    upg_017_outside_of_the_range_replaces_is_walked: "skip-range-outside-walks-replaces";
    upg_018_elasticsearch: "skip-range-z-stream" "skip-range-outside";
    upg_019_first_the_head_of_the_named_catalog: "skip-range";
    upg_020_then_what_replaces_the_installed_one: "replaces-one-step" "skip-range-outside-walks-replaces";
    upg_021_no_head_of_another_catalog: "update-not-from-another-catalog";
    upg_022_no_successor_of_another_catalog: "update-not-from-another-catalog";
    upg_023_z_streams_are_a_matter_of_the_graph: "skip-range-z-stream" "head-has-lower-version";
    upg_024_every_z_stream_release_updates_to_the_latest: "skip-range-z-stream" "skips-installed-bad-release";
    dep_001_nothing_is_installed_that_needs_what_nobody_provides: "dependency-missing" "upgrade-half-of-a-mutual-pair";
    dep_002_no_update_breaks_a_dependent: "upgrade-would-break-dependent" "upgrade-into-other-package-would-break-dependent";
    dep_003_properties_and_constraints_become_a_formula: "dependency-second-choice" "isolation-ends-at-what-is-installed";
    dep_004_package_and_version_are_a_property: "dependency-by-package" "two-channels-of-one-package";
    dep_005_provided_apis_are_properties: "dependency-by-api" "one-provider-per-api";
    dep_008_unknown_properties_mean_nothing: "unknown-property" "constraint-cel";
    dep_011_a_package_dependency_has_a_version_or_a_range: "dependency-exact-version" "dependency-by-package";
    dep_012_an_api_dependency_is_met_by_its_provider: "dependency-by-api";
    dep_013_both_dependencies_of_the_example_are_installed: "dependencies-package-and-api";
    dep_014_a_range_may_exclude_one_version: "dependency-range-with-exclusion";
    dep_015_a_range_may_be_a_window: "dependency-range-window";
    dep_016_a_minimum_version_beside_an_api: "dependency-api-with-minimum-version";
    dep_017_plain_dependencies_may_be_met_by_two_operators: "dependencies-package-and-api";
    dep_018_an_administrator_cannot_override_dependencies: "dependency-missing" "constraint-cel-unmet";
    dep_019_a_dependency_is_installed_in_the_same_namespace: "dependency-by-api";
    dep_020_an_installed_operator_meets_a_dependency_as_well: "dependency-met-by-installed";
    dep_021_a_maximum_version_holds_back_updates: "upgrade-held-by-range";
    dep_022_resolution_is_per_namespace: "other-namespaces-do-not-matter" "copied-csv-does-not-matter";
    dep_023_an_api_property_serves_whoever_requires_it: "dependency-by-api";
    dep_024_a_required_package_is_installed: "dependency-by-package";
    dep_025_a_required_api_is_installed: "dependency-by-api" "upgrade-brings-new-dependency";
    dep_026_an_update_that_drops_a_needed_api_waits: "upgrade-would-break-dependent";
    dep_027_a_mutual_pair_moves_together: "upgrade-of-a-mutual-pair" "upgrade-half-of-a-mutual-pair";
    dep_028_a_provider_owns_the_api: "dependency-met-by-installed";
    con_001_a_constraint_has_one_of_its_keys: "constraint-all" "constraint-any" "constraint-not" "constraint-cel" "malformed-requirement-left-out";
    con_002_the_failure_message_is_told: "constraint-cel-unmet" "constraint-message";
    con_003_gvk_means_what_the_property_means: "constraint-any-example";
    con_004_package_means_what_the_property_means: "constraint-nested";
    con_005_a_cel_rule_is_evaluated_over_properties: "constraint-cel" "constraint-cel-version";
    con_006_cel_sees_bundle_properties: "constraint-cel-version";
    con_007_certified_only: "constraint-cel" "constraint-cel-unmet";
    con_008_and_within_one_operator_or_as_well: "constraint-cel" "constraint-cel-any";
    con_009_all_parts_must_be_met: "constraint-all";
    con_010_any_part_is_enough: "constraint-any" "constraint-any-example";
    con_011_not_rules_bundles_out: "constraint-not";
    con_012_not_within_all: "constraint-not";
    con_014_nested_constraints_may_have_messages: "constraint-message" "constraint-nested";
    con_015_compounds_nest: "constraint-nested";
    con_016_either_branch_is_enough: "constraint-nested";
    con_017_size_and_nesting_are_limited: "constraint-nested-without-end";
    pref_001_higher_priority_catalogs_first: "dependency-catalog-priority";
    pref_002_the_dependents_own_catalog_first: "dependency-catalog-order";
    pref_003_the_default_channel_first: "dependency-in-default-channel" "no-channel";
    pref_004_then_channels_by_name: "dependency-channels-by-name" "no-channel-falls-back-by-name";
    pref_005_an_entry_of_the_preferred_channel: "dependency-in-default-channel";
    pref_006_a_subscription_is_bound_to_its_channel: "channel-restricts";
    pref_007_newer_entries_first: "channel-head" "dependency-channels-by-name" "dependency-only-in-older-entry";
    pref_008_only_what_satisfies_the_subscription: "channel-restricts" "replaces-one-step";
    pref_009_a_package_is_there_once: "two-channels-of-one-package" "dependency-not-of-own-package";
    pref_010_the_choice_is_determined: "dependency-catalog-order" "dependency-own-namespace-first";
    sch_019_skip_range_with_and_without_replaces: "skip-range-and-replaces" "skip-range-alone-leaves-the-graph";
    opm_009_a_broken_bundle_is_left_by_an_edge: "broken-bundle-left-by-an-edge";
    opm_010_an_entry_in_another_channel_makes_a_bundle_available: "channels-share-entries" "channels-share-entries-beta";
    opm_011_skipping_a_later_release_moves_its_users: "skipped-later-release";
    v1u_005_classic_finds_no_update_to_a_skipped_version: "classic-no-update-to-a-skipped-version";
}
