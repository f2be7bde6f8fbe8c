//! Claims about disguises of the forum, tested on every database.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

/// Hands every claim to the macro called `$each`, so that all databases are held to the same list.
macro_rules! for_every_claim {
    ($each:ident) => {
        $each! {
            removal_takes_user_and_stories_and_keeps_moderations_under_placeholders
            anonymising_everybody_gives_each_row_and_column_its_own_placeholder
            rows_of_one_owner_and_group_share_a_placeholder
            a_join_chooses_rows_and_nothing_else
            removal_over_an_anonymisation_comes_back_anonymous_and_then_in_full
            the_older_disguise_may_be_revealed_first
            chains_of_any_depth_unwind_in_any_order
            the_order_in_which_one_returns_keeps_no_row_of_another
            a_row_that_came_back_without_its_reader_gets_them_in_any_order
            a_shared_row_that_came_back_without_its_readers_gets_them
            a_newcomer_with_the_id_of_a_reader_does_not_read_the_row
            a_reader_with_a_new_key_still_reads_the_row
            a_placeholder_of_a_reader_is_known_by_its_key
            a_row_of_two_does_not_come_back_to_a_newcomer
            a_shared_row_does_not_come_back_to_a_newcomer
            one_id_may_mean_two_people_in_the_records_of_one
            a_value_that_names_a_reader_waits_for_them
            a_reader_is_known_in_whatever_record_their_name_moved_to
            a_newcomer_is_not_who_invited_somebody
            an_emptied_reference_does_not_go_into_the_row_of_a_newcomer
            a_placeholder_in_a_reference_waits_for_the_row_of_its_person
            a_reference_of_somebody_without_a_key_is_known_by_the_id
            a_reader_without_a_key_is_known_by_the_id
            rows_wait_over_several_references_to_their_own_table
            rows_wait_for_a_parent_that_the_database_refuses
            rows_of_several_people_in_a_circle_come_back
            a_circle_that_could_never_come_back_is_refused
            a_circle_over_accounts_is_refused
            a_replay_goes_on_after_what_the_database_refuses
            a_decay_goes_on_after_whom_the_database_refuses
            a_decay_goes_on_after_whom_a_trigger_does_not_let_go
            a_circle_over_a_reader_of_a_shared_row_is_refused
            a_sweep_goes_on_after_what_the_database_refuses
            accounts_that_need_each_other_are_refused
            a_circle_over_a_way_to_an_owner_that_is_said_comes_back
            a_chain_of_like_keys_is_no_circle
            a_row_of_a_circle_begins_without_the_others
            a_row_waits_where_its_tables_alone_make_a_circle
            a_reference_that_led_nowhere_keeps_no_row_away
            a_row_returns_before_one_that_went_before_it
            an_update_keeps_who_begins_a_circle
            rows_in_a_circle_of_other_spellings_come_back
            a_column_of_several_references_is_empty_for_a_while
            accounts_come_back_whoever_is_behind_the_rows_they_refer_to
            accounts_that_refer_to_shared_rows_come_back
            an_account_begins_without_the_rows_of_those_who_are_away
            circles_over_several_chunks_come_back
            rows_that_refer_to_an_emptied_column_wait_for_it
            a_key_that_is_matched_full_is_not_emptied_in_part
            a_circle_whose_rows_may_not_be_without_a_reference_goes_back_whole
            an_emptied_column_of_a_key_to_its_own_table_is_filled_in_turn
            rows_in_a_circle_of_joint_keys_in_other_spellings_come_back
            a_chunk_empties_no_column_of_the_key_referred_to
            a_row_waits_for_one_to_which_a_column_worked_out_leads
            a_row_whose_parent_leads_nowhere_waits_with_it
            a_row_whose_key_is_worked_out_keeps_its_children_back_alone
            a_circle_of_several_people_over_a_column_worked_out_is_seen
            a_row_that_referred_to_nothing_comes_back_without_the_reference
            a_row_that_referred_to_nothing_pays_for_no_row_of_others
            a_row_without_its_row_of_the_same_table_is_foretold_and_named
            a_row_that_lost_its_row_of_the_same_table_keeps_no_other_away
            bits_are_tenants_like_other_numbers
            a_value_that_an_update_makes_a_row_comes_back_as_one
            another_salt_than_the_databases_own_is_refused
            the_default_of_a_parameter_counts_for_inactivity
            everybody_without_a_key_is_foretold
            another_description_than_the_stored_one_is_noted
            what_a_trigger_keeps_is_not_forgotten
            rows_with_bits_as_keys_are_found_by_them
            bits_are_ids_like_other_numbers
            an_id_of_many_digits_is_one_person
            keys_of_too_many_digits_are_refused_by_name
            a_record_that_cannot_be_read_keeps_no_other_away
            a_table_of_disguises_that_is_gone_is_said_and_not_made_anew
            a_circle_of_one_person_to_a_column_worked_out_goes_back
            a_circle_of_one_person_over_two_tables_to_a_column_worked_out_goes_back
            a_value_waits_for_a_row_to_which_a_column_worked_out_leads
            a_value_stays_where_rows_refer_to_a_column_worked_out_of_it
            a_circle_over_a_column_worked_out_goes_back
            a_reference_that_led_nowhere_waits_for_no_like_key
            a_row_with_the_key_zero_is_waited_for
            a_circle_over_a_joint_key_with_a_column_that_may_be_empty_goes_back
            rows_that_cannot_stay_are_not_taken_out_one_by_one
            a_row_whose_parent_is_a_strangers_now_waits_with_it
            a_circle_that_is_refused_keeps_no_other_away
            chunks_end_after_everybody_came_back
            rows_of_one_and_of_two_that_refer_to_each_other_go_together
            rows_that_stay_keep_their_references
            a_row_without_an_end_of_its_path_goes_to_its_reader
            who_leaves_the_rows_of_somebody_back_leaves_no_id
            ids_given_anew_name_nobody_of_before_in_any_order
            a_user_who_came_back_without_whom_they_refer_to_gets_them_in_any_order
            values_overwritten_twice_come_back_in_any_order
            what_was_written_between_two_disguises_comes_back_although_the_later_puts_there_what_the_earlier_hid
            a_value_that_a_second_disguise_of_the_same_moment_restores_comes_back_in_any_order
            a_shared_value_that_another_owner_covers_with_itself_comes_back_in_any_order
            a_value_that_the_application_put_back_is_done_where_nobody_else_is_named
            values_of_a_column_that_is_gone_stay_and_are_named
            of_two_removed_rows_with_one_key_the_last_comes_back
            values_come_back_in_any_order_although_the_clock_was_put_back
            values_come_back_in_any_order_from_under_a_chunk_that_was_begun_before
            owners_of_shared_rows_leave_and_return_in_any_order
            shared_rows_removed_for_everybody_come_back_owner_by_owner
            a_shared_row_with_an_owner_who_is_nobody_comes_back
            a_row_of_owners_who_are_nobody_goes_with_its_reader
            rows_that_name_nobody_stay_and_are_told_of_when_everybody_leaves
            replies_and_rows_on_a_path_that_name_nobody_stay
            rows_owned_through_a_row_that_goes_with_its_reader_go_along
            rows_of_nobody_go_along_with_rows_that_go
            rows_of_nobody_go_along_over_others_of_nobody
            rows_of_nobody_go_along_with_shared_rows_and_with_accounts
            a_row_of_nobody_comes_back_with_whoever_brings_the_shared_row_back
            rows_of_nobody_stay_with_rows_of_whoever_came_back_meanwhile
            rows_that_went_along_wait_for_whoever_came_to_an_id_of_nobody
            what_stands_in_the_way_of_everybody_is_found_before_anything_goes
            owners_beside_nobody_leave_and_return_in_any_order
            rows_that_go_whole_and_rows_read_by_nobody_come_back
            whoever_was_somebody_then_and_has_gone_since_is_waited_for
            a_row_names_the_id_of_nobody_again_whoever_has_it_by_then
            a_foreign_key_keeps_a_row_that_names_nobody
            an_id_of_bytes_is_written_in_digits
            an_id_of_text_is_never_read_as_bytes
            rows_under_placeholders_are_told_of_when_everybody_leaves
            a_row_under_placeholders_counts_once_and_only_if_nobody_else_has_it
            a_value_of_two_owners_goes_with_the_one_who_is_no_placeholder
            the_application_wins_and_a_retry_finds_what_is_left
            a_changed_value_stays_and_the_rest_of_the_row_follows_the_choice
            rows_made_meanwhile_follow_the_policy
            what_a_policy_retains_is_counted
            an_account_that_others_refer_to_stays_until_they_let_go_of_it
            keys_that_keep_placeholders_are_noted
            rows_that_others_refer_to_are_not_deleted_with_a_placeholder
            rows_of_others_are_not_deleted_with_a_placeholder
            what_is_held_is_not_deleted_with_a_placeholder
            a_row_that_a_record_has_lost_is_not_deleted_with_its_placeholder
            a_row_that_a_record_speaks_of_is_not_deleted_with_another_placeholder
            owners_come_back_in_whatever_form_their_columns_store_placeholders
            a_key_that_was_overwritten_comes_back_in_whatever_form_it_is_stored
            an_identity_that_several_rows_may_have_is_refused
            an_id_that_several_users_may_have_is_refused
            a_row_that_a_constraint_refuses_keeps_its_placeholder_alone
            a_key_that_others_refer_to_stays_with_its_placeholder
            rows_whose_parent_must_stay_stay_with_it
            a_key_that_is_checked_at_the_commit_keeps_one_row_back
            a_value_that_would_refer_to_nothing_stays_alone
            no_more_rows_go_with_a_placeholder_than_its_own
            only_the_right_credential_opens_anything
            what_is_forgotten_never_comes_back
            forgetting_one_disguise_leaves_the_way_to_another
            wrong_specifications_change_nothing_and_name_their_place
            a_parameter_that_the_specification_lacks_is_refused_by_name
            a_text_that_the_database_cannot_hold_is_refused_by_name
            slips_in_files_of_edna_are_noted_all_at_once_and_no_more
            slips_in_files_of_our_own_are_refused
            columns_in_files_of_edna_are_found_in_any_letters
            a_number_in_the_place_of_a_truth_is_true_unless_it_is_0
            a_condition_of_an_older_form_is_refused_by_its_form
            users_without_a_key_are_refused_before_anything_changes
            an_id_without_a_row_is_neither_registered_nor_disguised
            whoever_is_away_is_told_by_which_disguise_and_still_returns
            whoever_was_removed_by_the_application_keeps_what_is_theirs
            what_is_refused_before_it_begins_is_told
            random_schedules_end_where_they_began
            random_schedules_do_what_the_model_says
            a_cut_at_any_statement_changes_nothing
            every_kind_of_value_comes_back_bit_by_bit
            a_new_password_replaces_the_old_ones_and_reveals_what_they_did
            a_credential_is_handed_over_before_anything_is_committed_under_it
            a_new_key_opens_everything_and_the_old_one_nothing
            nobody_changes_the_key_of_another
            whoever_forgets_everything_can_open_nothing_ever_again
            rows_of_nobody_stay_when_everybody_leaves
            rows_under_placeholders_of_everybody_do_not_count_as_cascading
            one_value_of_two_owners_comes_back_in_either_order
            keys_that_others_refer_to_are_foretold_not_to_change
            no_key_changes_where_the_database_would_empty_references_to_it
            values_of_a_row_follow_the_placeholder_in_its_key
            values_of_placeholders_that_are_gone_hold_nothing_back
            other_spellings_are_found_along_paths_and_where_a_reference_was_let_go_of
            a_draft_makes_ids_that_their_columns_hold
            a_draft_fits_the_database_that_it_was_made_from
            a_draft_makes_placeholders_that_the_database_takes
            a_placeholder_that_is_refused_names_table_column_and_constraint
            a_plan_counts_what_the_disguise_then_does
            a_stored_description_serves_a_reveal_without_files
            a_schema_that_changed_meanwhile_is_named_and_nothing_is_lost
            a_column_added_meanwhile_is_hidden_with_the_row_from_then_on
            every_change_of_a_table_gives_the_schema_another_number
            every_wrong_credential_costs_the_same_work
            a_stolen_database_tells_neither_who_left_nor_what_they_had
            a_row_for_which_a_trigger_raises_an_error_stays_alone
            a_row_to_which_a_trigger_gives_another_key_is_not_said_to_be_hidden
            a_row_that_is_of_two_people_by_a_conversion_is_refused
            a_row_that_names_its_owner_by_a_conversion_alone_is_refused
            a_row_goes_with_one_person_whichever_column_disregards_capitals
            numbers_that_are_rounded_name_nobody_twice
            a_padded_id_finds_the_rows_of_its_owner_alone
            a_row_that_each_comparison_gives_to_another_is_refused
            many_owners_leave_by_a_column_of_another_comparison
            a_person_of_another_tenant_makes_no_row_doubtful
            a_hold_counts_for_rows_that_name_its_person_otherwise
            a_path_whose_step_compares_otherwise_is_refused
            a_row_that_names_somebody_else_by_the_column_alone_is_refused
            a_row_that_became_two_peoples_while_it_was_hidden_comes_back_as_it_was
            whoever_came_to_an_id_meanwhile_gets_nothing_of_its_owner
            values_of_an_account_do_not_go_into_that_of_a_newcomer
            values_of_a_row_do_not_go_into_that_of_another
            a_value_that_another_row_has_by_chance_is_not_taken_for_returned
            a_row_does_not_go_under_that_of_another
            a_row_waits_for_the_one_that_says_whose_it_is
            values_do_not_go_into_or_under_rows_of_another_along_a_path
            whoever_has_the_id_of_a_placeholder_gives_and_gets_nothing
            rows_in_a_circle_do_not_go_to_a_newcomer
            what_has_ended_does_not_come_back_with_another_disguise
            a_removal_that_breaks_a_constraint_changes_nothing
            any_two_shares_of_a_token_open_and_others_open_nothing
            every_operation_is_told_and_names_nobody
            a_log_that_takes_nothing_keeps_every_operation_from_happening
            a_credential_does_nothing_in_the_name_of_another
            each_wrong_password_is_told_wherever_it_is_tried
            a_reveal_under_another_id_gives_the_newcomer_nothing
            refusals_are_counted_for_each_person
            a_key_alone_says_whose_it_is
            a_row_of_somebody_else_does_not_come_back_with_a_person
            what_was_forgotten_and_is_there_again_is_found_by_a_replay
            old_rows_put_back_do_not_bring_back_what_was_forgotten
            old_rows_put_back_are_not_open_to_a_key_that_was_changed
            no_error_of_the_database_quotes_a_value
            a_row_that_stays_says_which_constraint_keeps_it
            a_statement_that_fails_names_what_it_is_about
            a_reveal_of_what_is_not_hidden_succeeds_and_says_so
            failed_entries_say_why_and_name_nobody
            what_would_be_refused_is_foretold
            a_password_that_stays_seals_each_key_under_another_key
            rows_of_the_older_form_open_and_are_sealed_anew
            a_new_key_for_a_row_of_the_older_form_is_sealed_in_the_new_one
            whoever_registers_again_with_the_same_password_stays_registered
            a_registration_that_was_lost_does_not_replace_a_later_one
            a_replaced_password_or_token_stays_replaced_when_its_row_is_put_back
            rows_that_wrap_a_replaced_key_are_found_by_a_replay
            a_replaced_password_of_the_older_form_is_found_by_a_replay
            what_was_forgotten_in_more_records_than_an_entry_names_is_found_by_its_credentials
            a_backup_with_an_older_password_says_so_and_keeps_it
            whoever_is_held_is_neither_hidden_nor_forgotten_until_it_is_lifted
            whoever_is_held_while_away_cannot_be_forgotten_under_another_name
            a_hold_on_nobody_is_refused
            a_hold_keeps_what_others_would_take_along
            a_hold_on_somebody_else_is_found_before_anything_begins
            a_hold_keeps_what_a_co_owner_took_along_before
            a_held_disguise_is_not_forgotten_and_its_holds_are_listed
            a_receipt_tells_what_was_forgotten_and_the_log_vouches_for_it
            whoever_is_inactive_is_disguised_once_and_can_come_back
            whoever_stays_in_the_table_is_taken_again_only_after_a_change
            whoever_is_not_inactive_any_more_does_not_decay
            whoever_is_held_or_disguised_meanwhile_is_left_out_of_a_decay
            whoever_is_held_does_not_decay_and_a_cut_run_is_finished_by_the_next
            what_ends_can_be_revealed_before_and_is_destroyed_after
            what_is_hidden_behind_placeholders_ends_with_them_and_nothing_unreadable_stays
            a_new_key_and_a_reveal_in_part_keep_the_end
            a_sweep_cut_at_any_statement_is_finished_by_the_next
            a_hold_on_a_person_or_a_disguise_keeps_records_from_ending
            a_hold_on_a_disguise_keeps_the_way_to_it
            within_the_grace_period_a_disguise_is_cancelled_and_after_it_applied
            a_scheduled_disguise_that_is_refused_stays_and_does_not_stop_the_others
            rows_that_refer_to_each_other_in_a_circle_come_back_in_one_reveal
            whoever_comes_back_in_a_circle_is_registered_and_may_leave_again
            shared_rows_in_a_circle_come_back_with_either_owner
            shared_rows_in_a_circle_that_leave_with_everybody_come_back
            shared_rows_in_a_circle_with_rows_of_one_owner_come_back_with_that_owner
            shared_rows_of_one_table_that_refer_to_each_other_come_back
            a_row_of_a_circle_that_was_made_anew_stays_and_voids_its_copy
            a_refused_row_keeps_its_circle_and_voids_no_copy
            an_older_copy_of_a_row_in_a_circle_counts_no_more
            a_declared_key_decides_the_order_against_a_reference_that_is_only_said
            declared_keys_decide_the_order_in_a_longer_circle
            a_reference_that_is_only_said_decides_between_tables_without_keys
            a_declared_key_to_rows_on_a_path_over_its_own_is_emptied_first
            a_declared_key_that_may_not_be_empty_on_such_a_path_is_foretold
            columns_that_the_database_works_out_keep_nobody_away
            triggers_on_touched_tables_are_noted
            what_a_trigger_keeps_from_coming_back_stays_hidden
            what_a_trigger_keeps_from_being_hidden_is_refused
            a_trigger_that_only_takes_notes_is_in_nobodys_way
            whoever_is_referred_to_leaves_and_returns
            a_reference_that_changed_meanwhile_stays_as_it_is
            two_who_refer_to_each_other_leave_and_return_in_either_order
            everybody_who_refers_to_each_other_leaves_and_returns_in_any_order
            of_everybody_who_stays_refers_to_whoever_leaves
            a_reference_that_may_not_be_null_gets_a_placeholder
            references_of_other_tables_are_let_go_of_without_a_transformation
            references_of_other_tenants_are_left_alone
            whoever_leaves_takes_their_following_along
            everybody_leaves_with_their_following_and_returns_in_any_order
            a_following_that_was_anonymous_comes_back_to_both
            answers_to_ones_own_rows_leave_in_one_go
            answers_of_others_keep_a_row_from_going
            what_cannot_be_said_of_references_is_refused
            a_draft_says_what_becomes_of_references_among_users
            placeholders_in_a_key_of_two_people_are_noted
            what_a_disguise_would_be_refused_for_is_foretold
            a_key_written_in_other_letters_is_not_overlooked
            rows_that_spell_their_owner_in_another_way_leave_and_return
            rows_of_everybody_are_hidden_however_they_spell_their_owner
            what_is_shared_or_refers_comes_back_in_its_own_spelling
            an_id_in_another_spelling_is_refused
            whoever_came_to_an_id_in_another_spelling_gets_nothing
            rows_that_were_disguised_meet_the_migrations_that_they_missed
            what_is_disguised_after_an_update_does_not_meet_it
            shared_rows_removed_before_a_migration_come_back_owner_by_owner
            an_update_by_code_is_asked_for_until_the_program_has_it
            an_update_that_does_not_fit_is_named_and_may_be_replaced
            an_update_into_a_table_without_a_key_is_refused
            an_engine_that_is_installed_leaves_the_application_alone
            everybody_leaves_over_an_anonymisation_and_returns_in_either_order
            shared_rows_under_placeholders_are_not_found_without_the_credential
            a_moderator_of_everything_leaves_first_and_returns_last
            texts_rewritten_while_they_are_disguised_come_back_rewritten
            names_that_moved_to_a_table_of_their_own_come_back_there
            names_of_placeholders_go_with_them_when_the_newer_disguise_comes_first
            names_of_placeholders_that_are_gone_do_not_come_to_their_person
            names_of_placeholders_go_with_them_although_a_first_try_failed
            rows_owned_through_others_leave_and_return_with_their_owner
            rows_behind_placeholders_are_found_through_their_parents
            changes_of_rows_come_before_their_owners_are_hidden
            a_row_whose_parent_is_gone_is_kept_and_reported
            who_only_reads_a_row_leaves_it_and_its_owner_takes_it_along
            an_owner_returns_without_waiting_for_the_readers
            a_path_that_does_not_lead_to_one_owner_is_refused
            a_key_to_another_column_of_the_users_table_names_no_owner
            a_draft_proposes_the_way_to_the_owner
            what_a_text_says_of_people_is_hidden_and_comes_back
            a_redacted_text_follows_the_checks_of_a_reveal_and_composes
            a_redactor_by_code_is_asked_for_until_the_program_has_it
            a_redacted_text_fits_its_column_and_the_whole_one_comes_back
            redactions_that_do_not_fit_are_refused
            whoever_has_the_credential_takes_away_what_is_hidden_and_nothing_changes
            a_wrong_credential_exports_nothing_with_the_same_work_and_error
            an_export_is_told_and_gives_rows_as_updates_since_make_them
            who_was_removed_since_the_backup_is_removed_again_and_can_return
            a_second_restore_is_replayed_again_and_what_the_backup_knows_is_not
            what_was_forgotten_since_the_backup_is_forgotten_again
            what_cannot_be_replayed_is_named_with_its_reason
            schedules_holds_and_registrations_are_replayed
            a_replay_cut_at_any_statement_is_finished_by_the_next
            nothing_is_hidden_again_under_a_key_whose_password_went_with_the_database
            nothing_is_hidden_again_under_a_key_that_was_replaced
            what_was_forgotten_and_is_there_again_is_found_although_a_newcomer_forgot_the_same
            what_was_forgotten_twice_and_is_there_again_is_found
            a_password_that_was_replaced_twice_and_is_there_again_is_found
            nothing_is_hidden_again_under_a_key_that_was_changed_before_or_after
            a_registration_whose_password_came_later_is_not_done_again
            whoever_had_an_id_before_loses_nothing_by_what_a_newcomer_forgot
            a_newcomers_registration_is_foretold_as_it_is_replayed
            a_replay_gives_nothing_to_the_next_holder_of_an_id
            whoever_is_away_changes_key_and_password_although_somebody_has_the_id
            what_a_stranger_forgot_takes_nothing_from_its_person
            what_was_forgotten_without_a_key_is_sealed_and_listed
            what_was_back_before_it_was_forgotten_comes_back_after_a_replay
            copies_of_whoever_forgot_nothing_come_back_after_a_replay
            rows_of_chunks_that_were_ended_are_said_to_be_in_clear
            chunks_that_were_ended_since_the_backup_end
            chunks_of_everybody_go_on_without_whoever_forgot_since_the_backup
            a_replay_destroys_nothing_that_is_held
            whoever_decayed_again_by_a_replay_is_not_taken_anew
            what_was_forgotten_with_a_key_that_is_not_its_persons_is_told_of
            what_a_reveal_in_part_superseded_does_not_come_back
            what_was_revealed_is_not_revealed_again_from_old_rows
            records_under_a_replaced_key_are_found_by_a_replay
            what_was_forgotten_is_found_under_whatever_id_its_locator_is_put_back
            a_request_asked_again_is_answered_as_before_and_done_once
            a_request_that_is_refused_or_cut_keeps_no_key_and_is_told
            answers_about_whoever_is_forgotten_go_with_them
            an_answer_about_whoever_is_forgotten_stays_gone_when_its_row_is_put_back
            a_disguise_in_chunks_does_what_one_in_one_go_does_and_comes_back
            a_half_applied_disguise_is_taken_back_and_not_gone_on_with
            a_cut_in_a_chunk_loses_nothing_and_the_next_call_goes_on
            a_disguise_in_chunks_interrupted_after_each_of_them_is_the_same
            what_is_hidden_behind_a_placeholder_of_a_chunk_that_is_done_comes_back
            a_half_applied_disguise_over_placeholders_is_taken_back
            rows_that_refer_to_each_other_leave_in_chunks_and_come_back
            a_ring_of_rows_leaves_in_one_chunk_where_the_database_lets_it
            whoever_came_back_does_not_hold_up_the_rows_of_others
            keys_that_change_are_gone_through_once
            groups_of_any_size_have_one_placeholder_each_in_chunks
            a_half_applied_disguise_of_everybody_goes_on_without_whoever_came_back
            a_half_applied_disguise_of_everybody_comes_back_when_all_reveal_it
            what_is_forgotten_in_the_middle_is_hidden_for_good_and_others_come_back
            a_disguise_over_placeholders_asks_for_the_credential_at_each_chunk
            a_hold_stops_a_disguise_in_chunks_until_it_is_lifted
            nothing_of_a_hybrid_person_is_sealed_with_less
            a_key_changes_from_each_suite_to_the_other_with_everything_that_it_opens
            a_changed_suite_or_public_key_is_refused
            a_public_key_in_the_place_of_another_is_refused_when_its_person_comes
            tenants_with_the_same_ids_never_touch_each_other
            a_credential_of_one_tenant_opens_nothing_of_another
            holds_schedules_ends_decay_and_replays_are_of_one_tenant
            a_tenant_is_bound_and_refused_where_it_is_none
            rows_that_moved_to_another_tenant_stay_there
            a_migration_that_changes_the_tenant_brings_nothing_to_another
            descriptions_that_mix_tenants_up_are_refused
            tenants_are_not_taken_up_while_people_are_registered_without
            a_draft_proposes_the_tenant_column
            random_schedules_of_two_tenants_do_what_two_models_say
            a_removal_asks_once_what_it_stands_on_and_takes_each_table_at_once
            an_account_is_removed_and_read_at_once_and_not_looked_for_when_it_is_back
            savepoints_of_the_application_stay_its_own
            columns_of_the_same_rows_leave_and_return_by_one_statement
            what_cannot_return_keeps_neither_the_rest_of_its_row_nor_other_rows
            a_step_whose_rows_an_earlier_one_changes_is_taken_after_it
            a_column_too_narrow_for_a_placeholder_names_none
            a_column_that_is_not_compared_with_the_ids_is_refused
            whoever_has_an_id_too_great_for_a_column_has_no_row_there
            a_row_of_nobody_goes_with_no_namesake
            a_declared_key_of_unlike_columns_is_no_path
            a_column_that_alters_the_id_of_a_placeholder_gets_none
            ids_that_run_out_end_in_an_error
            rows_made_for_one_of_many_placeholders_move_and_those_of_its_neighbour_stay
            a_person_with_more_rows_than_are_held_leaves_in_one_go_and_comes_back
            no_statement_gives_more_rows_than_are_held
            a_cut_in_the_middle_of_many_rows_changes_nothing
            rows_of_tables_without_places_leave_a_part_at_a_time_and_take_nobody_along
            chunks_rest_between_their_transactions_and_the_last_does_not
            chunks_of_a_person_leave_a_newcomer_alone
            marks_of_chunks_are_their_persons_and_not_a_newcomers
            a_mark_is_not_that_of_an_unregistered_newcomer
            a_mark_is_not_that_of_a_registered_newcomer
            a_mark_stays_that_of_its_person
            the_end_of_a_registration_takes_its_marks
            a_mark_without_a_key_counts_where_nobody_has_the_id
            a_hold_on_any_owner_stops_chunks_after_a_mark
            a_row_of_two_stays_with_the_one_who_forgot_nothing
            a_hold_on_a_co_owner_is_found_before_chunks_of_everybody_begin
            chunks_and_orders_follow_their_person_to_a_new_key
            a_disguise_in_its_grace_period_leaves_a_newcomer_alone
            what_is_scheduled_ends_when_everything_is_forgotten
            an_order_without_a_key_is_read_and_not_applied
            a_deleted_account_ends_its_registration_and_the_id_is_free
            a_registration_ends_by_its_persons_credential_while_the_row_is_there
            a_hold_counts_where_it_cannot_be_told_whose_a_record_is
            a_hold_reaches_rows_that_are_owned_through_others
            a_hold_on_an_unregistered_co_owner_counts_for_everybody
            what_one_person_removed_of_their_own_is_forgotten_while_another_is_held
            a_disguise_that_is_not_done_is_not_replayed_while_its_person_is_held
        }
    };
}

mod absent;
mod accounts_begin;
mod along;
mod applying;
mod bad_input;
mod behind;
mod binary_ids;
mod bit_keys;
mod chunks;
mod circle;
mod circles_of_accounts;
mod circles_of_people;
mod co_owned_circle;
mod composing;
mod conformance;
mod credentials;
mod decay;
mod decimal_ids;
mod draft;
mod drafting;
mod emptying;
mod endings;
mod export;
mod following;
mod foretold;
pub(crate) mod forum;
mod handles;
mod holder;
mod holds;
mod hybrid;
mod ids_given_anew;
mod joint_keys;
mod known_readers;
mod late_keys;
mod led_nowhere;
mod lost_tables;
mod marks;
mod meanwhile;
pub(crate) mod member;
mod missed;
mod model;
mod namesakes;
mod native;
mod newcomers;
mod once;
mod one_refusal;
mod orphans_wait;
mod other_person;
mod ownership;
mod pace;
mod parameters;
mod parts;
mod passed_over;
mod readers;
mod records;
mod redaction;
mod references;
mod replay;
mod revealing;
mod rows_that_stay;
mod said_references;
pub(crate) mod schedule;
mod slips;
mod society;
mod spelling;
mod statements;
mod stolen;
mod stored_forms;
mod strangers;
mod superseded;
mod support;
mod tenants;
mod threads;
mod together;
mod trigger_refusals;
mod two_comparisons;
mod unchangeable;
mod unclaimed;
mod under_placeholders;
mod unfit_owners;
mod unlike_keys;
mod unreadable;
mod updates;
mod whose_rows;
mod words;
mod worked_out;
mod wrapped;

pub(crate) use absent::*;
pub(crate) use accounts_begin::*;
pub(crate) use along::*;
pub(crate) use applying::*;
pub(crate) use bad_input::*;
pub(crate) use behind::*;
pub(crate) use binary_ids::*;
pub(crate) use bit_keys::*;
pub(crate) use chunks::*;
pub(crate) use circle::*;
pub(crate) use circles_of_accounts::*;
pub(crate) use circles_of_people::*;
pub(crate) use co_owned_circle::*;
pub(crate) use composing::*;
pub(crate) use conformance::*;
pub(crate) use credentials::*;
pub(crate) use decay::*;
pub(crate) use decimal_ids::*;
pub(crate) use draft::*;
pub(crate) use drafting::*;
pub(crate) use emptying::*;
pub(crate) use endings::*;
pub(crate) use export::*;
pub(crate) use following::*;
pub(crate) use foretold::*;
pub(crate) use handles::*;
pub(crate) use holder::*;
pub(crate) use holds::*;
pub(crate) use hybrid::*;
pub(crate) use ids_given_anew::*;
pub(crate) use joint_keys::*;
pub(crate) use known_readers::*;
pub(crate) use late_keys::*;
pub(crate) use led_nowhere::*;
pub(crate) use lost_tables::*;
pub(crate) use marks::*;
pub(crate) use meanwhile::*;
pub(crate) use missed::*;
pub(crate) use namesakes::*;
pub(crate) use native::*;
pub(crate) use newcomers::*;
pub(crate) use once::*;
pub(crate) use one_refusal::*;
pub(crate) use orphans_wait::*;
pub(crate) use other_person::*;
pub(crate) use ownership::*;
pub(crate) use pace::*;
pub(crate) use parameters::*;
pub(crate) use parts::*;
pub(crate) use passed_over::*;
pub(crate) use readers::*;
pub(crate) use records::*;
pub(crate) use redaction::*;
pub(crate) use references::*;
pub(crate) use replay::*;
pub(crate) use revealing::*;
pub(crate) use rows_that_stay::*;
pub(crate) use said_references::*;
pub(crate) use schedule::{
    random_schedules_do_what_the_model_says, random_schedules_end_where_they_began,
    random_schedules_of_two_tenants_do_what_two_models_say,
};
pub(crate) use slips::*;
pub(crate) use spelling::*;
pub(crate) use statements::*;
pub(crate) use stolen::*;
pub(crate) use stored_forms::*;
pub(crate) use strangers::*;
pub(crate) use superseded::*;
pub(crate) use support::*;
pub(crate) use tenants::*;
pub(crate) use threads::*;
pub(crate) use together::*;
pub(crate) use trigger_refusals::*;
pub(crate) use two_comparisons::*;
pub(crate) use unchangeable::*;
pub(crate) use unclaimed::*;
pub(crate) use under_placeholders::*;
pub(crate) use unfit_owners::*;
pub(crate) use unlike_keys::*;
pub(crate) use unreadable::*;
pub(crate) use updates::*;
pub(crate) use whose_rows::*;
pub(crate) use words::*;
pub(crate) use worked_out::*;
pub(crate) use wrapped::*;
