//! The promises of every engine of the catalogue, one function each.
//!
//! The functions see only a `dyn Catalog` and an [`Engine`] that opens it. Another engine is
//! tested with one more `impl Engine` and one more line `conformance!(name, how to make it)`. A
//! function that the macro forgets is dead code, which the compiler reports.

pub(crate) mod alerts;
pub(crate) mod amounts;
pub(crate) mod archives;
pub(crate) mod baselines;
pub(crate) mod batches;
pub(crate) mod contacts;
pub(crate) mod digests;
pub(crate) mod drills;
pub(crate) mod expiry;
pub(crate) mod filespaces;
pub(crate) mod groups;
pub(crate) mod identities;
pub(crate) mod keys;
pub(crate) mod marks;
pub(crate) mod nodes;
pub(crate) mod packs;
pub(crate) mod pages;
pub(crate) mod people;
pub(crate) mod policy;
pub(crate) mod pools;
pub(crate) mod read_rules;
pub(crate) mod reference;
pub(crate) mod schedules;
pub(crate) mod sessions;
pub(crate) mod tape;
pub(crate) mod threads;
pub(crate) mod tokens;
pub(crate) mod versions;

use catalog::Catalog;

/// A catalogue of an engine, empty at first.
pub(crate) trait Engine {
    /// Opens the catalogue.
    fn open(&self) -> Box<dyn Catalog>;

    /// Closes the catalogue and opens it again.
    fn reopen(&self, catalog: Box<dyn Catalog>) -> Box<dyn Catalog> {
        drop(catalog);
        self.open()
    }
}

/// Makes a test of each promise for the engine that `$new` makes, if the machine has it.
macro_rules! conformance {
    ($engine:ident, $new:expr) => {
        mod $engine {
            use crate::conformance::conformance;

            conformance!(@theme nodes, $new,
                a_new_node_is_there_as_registered,
                nodes_are_listed_in_byte_order_of_their_names,
                nodes_are_listed_from_a_name,
                a_name_is_given_once,
                an_unknown_domain_has_no_nodes,
                an_unknown_node_is_not_found,
                a_locked_node_stays_locked_until_unlocked,
                a_renamed_node_keeps_all_but_its_name,
                a_taken_name_is_refused,
                a_node_is_registered_as_a_whole_or_not_at_all,
                a_node_is_altered_as_a_whole_or_not_at_all,
                a_full_domain_takes_no_node,
                removal_takes_all_of_the_node_and_nothing_else,
                a_removed_node_gets_nothing_more,
                numbers_are_never_given_twice,
            );
            conformance!(@theme marks, $new, a_mark_is_as_it_was_set_last,);
            conformance!(@theme pools, $new,
                a_pool_is_as_it_was_put,
                pools_are_told_apart,
                a_copy_is_of_one_moment,
            );
            conformance!(@theme tape, $new,
                a_library_is_as_it_was_put,
                libraries_are_told_apart,
                a_volume_is_as_it_was_put,
                every_state_and_access_is_kept,
                volumes_are_told_apart,
                volumes_are_listed_by_library_and_name,
                a_volume_number_is_never_given_twice,
                a_volume_with_data_stays,
                a_pack_lies_where_it_was_put_last,
                pools_do_not_share_parts,
                parts_are_listed_by_volume,
                a_volume_without_a_byte_of_a_pack_is_a_part,
                parts_belong_to_somebody,
                a_removed_pool_leaves_no_parts,
            );
            conformance!(@theme tokens, $new,
                a_token_enrols_its_node_once,
                an_unknown_token_is_refused,
                a_token_ends_at_its_expiry,
                a_newer_token_voids_the_unused_one,
                a_used_token_stays_used,
                a_failed_redemption_leaves_the_token_good,
                a_used_secret_is_not_given_again,
                an_unused_secret_is_given_again_with_another_end,
                renewed_certificates_lead_to_their_node,
                a_certificate_ends_when_another_supersedes_it,
                revocation_ends_all_that_a_node_could_enter_with,
                a_serial_is_given_once,
                serials_of_locked_nodes_are_left_out,
            );
            conformance!(@theme read_rules, $new,
                a_rule_is_kept_until_it_is_removed,
                a_rule_keeps_the_bytes_of_its_path,
                rules_follow_the_name_of_their_reader,
            );
            conformance!(@theme drills, $new,
                the_last_drill_of_each_kind_is_kept,
            );
            conformance!(@theme keys, $new,
                a_key_makes_as_many_nodes_as_it_may,
                a_key_ends_by_its_time_or_an_administrator,
            );
            conformance!(@theme filespaces, $new,
                a_filespace_is_made_once,
                removal_takes_all_of_the_filespace_and_nothing_else,
                filespaces_are_listed_in_byte_order,
                filespaces_are_listed_from_a_name,
                filespaces_are_found_by_their_archive,
                equal_names_of_two_nodes_are_two_filespaces,
            );
            conformance!(@theme policy, $new,
                a_new_catalogue_has_the_standard_policy,
                a_domain_is_made_once_and_goes_without_nodes,
                a_class_keeps_its_number,
                numbers_of_classes_are_drawn,
                a_domain_with_classes_goes_and_comes_again,
                a_draft_is_replaced_and_thrown_away,
                an_activated_draft_is_the_active_set,
                option_sets_are_stored_by_name,
                a_staged_version_is_promoted_or_withdrawn,
                a_node_is_changed_as_far_as_is_said,
                events_are_newest_first,
                a_task_runs_once_at_a_time,
            );
            conformance!(@theme archives, $new,
                archives_are_newest_first_and_can_be_changed,
                archives_and_deletions_are_listed_from_a_number,
                numbers_of_a_node_rise_and_tell_nothing_of_others,
                an_archive_goes_with_its_filespaces,
                deleted_versions_are_in_the_trash_until_it_is_emptied,
                what_changes_the_rules_has_archives_looked_at,
            );
            conformance!(@theme expiry, $new,
                endings_are_by_day_and_directory,
                every_limit_gives_the_same_endings,
                a_directory_is_marked_only_where_it_has_versions,
                dropped_versions_are_gone_and_others_stay,
                how_far_expiration_is_is_remembered,
                what_changes_the_rules_has_everything_looked_at,
            );
            conformance!(@theme pages, $new,
                a_page_is_replaced_as_a_whole,
                the_page_of_a_name_is_found,
                thousands_of_pages_go_in_one_batch,
                a_removed_page_is_gone_and_others_stay,
                bodies_are_any_bytes,
                first_names_are_in_byte_order,
                every_limit_gives_the_same_pages,
                every_span_behind_every_key_is_a_part_of_all_pages,
                filespaces_do_not_share_pages,
                objects_are_counted_at_and_below_a_directory,
                counts_go_beyond_32_bits,
            );
            conformance!(@theme digests, $new,
                the_scan_of_any_directory_equals_its_pages,
                a_page_can_lose_its_digest,
                the_digests_of_a_directory_are_of_its_pages_alone,
                directories_without_a_digest_are_found,
                the_scan_ends_when_told_so,
                many_digests_come_once_and_nothing_is_held_meanwhile,
                an_empty_filespace_has_no_digests,
            );
            conformance!(@theme versions, $new,
                versions_are_by_name_and_newest_first,
                an_equal_version_is_stored_once,
                directories_with_versions_are_listed_once,
                every_span_behind_every_directory_is_a_part_of_all,
                versions_are_not_active_objects,
            );
            conformance!(@theme packs, $new,
                packs_are_listed_by_number,
                a_pack_is_replaced,
                a_pack_keeps_its_node,
                a_pack_number_is_never_given_twice,
                a_refused_pack_has_had_no_number,
            );
            conformance!(@theme sessions, $new,
                sessions_are_newest_first,
                pages_of_sessions_stay_where_they_are,
                only_a_complete_session_dates_the_filespace,
                reports_are_kept_as_sent,
            );
            conformance!(@theme baselines, $new,
                baselines_are_oldest_first_and_of_one_node,
                the_oldest_baseline_makes_room_for_the_newest,
                documents_are_kept_as_sent,
            );
            conformance!(@theme people, $new,
                a_person_is_there_as_registered_and_changed,
                a_person_is_registered_with_roles_or_not_at_all,
                a_code_of_the_second_factor_counts_once,
                roles_are_replaced_as_a_whole,
                keys_belong_to_people_and_end,
                sign_ins_end_by_time_and_with_the_password,
                all_that_a_person_has_ends_with_the_person,
                details_are_replaced_and_end_with_their_object,
                an_owner_has_the_domains_of_the_nodes,
                an_owner_and_the_service_lock_apart,
                a_request_is_answered_once,
                an_approval_is_decided_once,
                requests_about_a_domain_end_with_it,
            );
            conformance!(@theme alerts, $new,
                an_alert_is_there_from_its_opening_to_the_notice_of_its_end,
                alerts_are_selected_by_who_sees_them,
                a_domain_has_no_alert_and_no_size_of_one_before_it,
                an_alert_is_acknowledged_once,
                a_notice_waits_until_it_was_sent,
                no_way_keeps_the_notices_of_another_back,
                changes_of_alerts_happen_together,
                facts_about_nodes_are_the_last_of_each,
                outcomes_are_of_events_that_are_over,
                packs_are_summed_by_domain_and_state,
                the_space_of_a_day_is_replaced,
                restores_are_listed_by_their_ends,
                archives_and_restores_of_all_nodes_are_newest_first,
            );
            conformance!(@theme schedules, $new,
                schedules_are_by_name_and_their_followers_end_with_them,
                labels_are_given_and_taken,
                events_are_numbered_one_after_the_other,
                pauses_and_begins_are_those_that_the_node_tells,
                events_are_opened_reported_and_closed,
                progress_is_told_of_the_attempt_that_works,
                a_report_after_the_end_corrects_the_event,
                events_are_selected_and_listed_in_portions,
                events_are_selected_by_nodes_schedules_and_text,
                events_are_selected_by_who_sees_them,
                a_domain_has_no_schedule_of_one_before_it,
                events_of_a_node_end_with_it,
            );
            conformance!(@theme amounts, $new,
                amounts_are_those_of_the_domain,
                what_is_freed_was_there,
            );
            conformance!(@theme identities, $new,
                an_identity_belongs_to_one_person,
                identities_are_replaced_as_a_whole_and_end_sign_ins,
                a_refused_change_of_a_person_changes_nothing,
            );
            conformance!(@theme contacts, $new,
                the_last_contact_of_a_node_is_kept_until_it_is_removed,
                the_last_poll_of_an_agent_is_kept_until_its_node_is_removed,
            );
            conformance!(@theme batches, $new,
                a_batch_with_a_refused_write_leaves_nothing,
                writes_of_a_batch_happen_in_order,
                an_empty_batch_changes_nothing,
                a_committed_batch_is_visible_at_once,
                a_reopened_catalogue_holds_everything,
            );
            conformance!(@theme threads, $new,
                commits_of_many_threads_are_all_durable,
                refused_batches_do_not_touch_those_beside_them,
                readers_see_whole_batches_only,
                one_of_many_adds_the_node,
                one_of_many_redeems_the_token,
                as_many_redeem_the_key_as_it_allows,
                one_filespace_is_made_by_many,
            );
            conformance!(@theme groups, $new,
                a_batch_does_what_its_writes_do_one_by_one,
            );
            conformance!(@theme reference, $new,
                any_batches_do_what_they_do_to_a_map,
            );
        }
    };
    (@theme $theme:ident, $new:expr, $($statement:ident),+ $(,)?) => {
        mod $theme {
            $(
                #[test]
                fn $statement() {
                    let Some(engine) = $new else { return };
                    crate::conformance::$theme::$statement(&engine);
                }
            )+
        }
    };
}

pub(crate) use conformance;
