//! Policy, and option sets.

use client::admin::{Admin, Domain, PolicySet};
use dsm::admin::view::{Table, Value};

use super::cell::optional_time;
use crate::error::CommandError;

/// Name of the copy group of each class, and of the set that holds the draft. Activation makes a
/// copy of this set active.
const STANDARD: &str = "STANDARD";
const ACTIVE: &str = "ACTIVE";

/// Calls `visit` with each set of each domain: the active one, and the draft. A domain without a
/// draft would begin one as a copy of its active set.
fn each_set(
    admin: &mut Admin,
    mut visit: impl FnMut(&Domain, &'static str, &PolicySet),
) -> Result<(), CommandError> {
    for domain in admin.domains(None)? {
        visit(&domain, ACTIVE, &domain.active);
        visit(&domain, STANDARD, domain.draft.as_ref().unwrap_or(&domain.active));
    }
    Ok(())
}

pub(super) fn domains(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for domain in admin.domains(None)? {
        table.add([
            ("DOMAIN_NAME", domain.name.into()),
            ("SET_LAST_ACTIVATED", STANDARD.into()),
            ("DEFMGMTCLASS", domain.active.default_class.into()),
            ("NUM_NODES", domain.nodes.into()),
            ("BACKRETENTION", u64::from(domain.active.backup_grace_days).into()),
            ("ARCHRETENTION", u64::from(domain.active.archive_grace_days).into()),
            ("HAS_DRAFT", (if domain.draft.is_some() { "Yes" } else { "No" }).into()),
        ]);
    }
    Ok(())
}

pub(super) fn sets(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    each_set(admin, |domain, name, set| {
        table.add([
            ("DOMAIN_NAME", domain.name.as_str().into()),
            ("SET_NAME", name.into()),
            ("DEFMGMTCLASS", set.default_class.as_str().into()),
        ]);
    })
}

pub(super) fn classes(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    each_set(admin, |domain, name, set| {
        for class in &set.classes {
            let is_default = class.name == set.default_class;
            table.add([
                ("DOMAIN_NAME", domain.name.as_str().into()),
                ("SET_NAME", name.into()),
                ("CLASS_NAME", class.name.as_str().into()),
                ("DEFAULTMC", (if is_default { "Yes" } else { "No" }).into()),
                ("LOCKED_UNTIL", optional_time(class.locked_until)),
            ]);
        }
    })
}

/// Returns a word of policy as TSM shows it.
fn upper(word: impl ToString) -> Value {
    word.to_string().to_uppercase().into()
}

pub(super) fn backup_groups(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    each_set(admin, |domain, name, set| {
        for class in &set.classes {
            let Some(group) = &class.backup else { continue };
            table.add([
                ("DOMAIN_NAME", domain.name.as_str().into()),
                ("SET_NAME", name.into()),
                ("CLASS_NAME", class.name.as_str().into()),
                ("COPYGROUP_NAME", STANDARD.into()),
                ("VEREXISTS", upper(group.versions_existing_max)),
                ("VERDELETED", upper(group.versions_deleted_max)),
                ("RETEXTRA", upper(group.extra_days)),
                ("RETONLY", upper(group.only_days)),
                ("MODE", upper(group.mode)),
                ("SERIALIZATION", upper(group.serialization)),
                ("FREQUENCY", u64::from(group.frequency_days).into()),
            ]);
        }
    })
}

pub(super) fn archive_groups(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    each_set(admin, |domain, name, set| {
        for class in &set.classes {
            let Some(group) = &class.archive else { continue };
            table.add([
                ("DOMAIN_NAME", domain.name.as_str().into()),
                ("SET_NAME", name.into()),
                ("CLASS_NAME", class.name.as_str().into()),
                ("COPYGROUP_NAME", STANDARD.into()),
                ("RETVER", upper(group.keep_days)),
                ("MODE", "ABSOLUTE".into()),
                ("RETINIT", upper(group.starts)),
                ("RETMIN", u64::from(group.minimum_days).into()),
            ]);
        }
    })
}

pub(super) fn option_sets(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for set in admin.option_sets(None)? {
        table.add([
            ("OPTIONSET_NAME", set.name.into()),
            ("DESCRIPTION", set.current.comment.into()),
            ("LAST_UPDATE_BY", set.current.author.into()),
            ("LAST_UPDATE", optional_time(set.current.changed)),
            ("VERSION", set.current.number.into()),
        ]);
    }
    Ok(())
}

pub(super) fn options(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for set in admin.option_sets(None)? {
        let statements = model::escaped(&set.current.text);
        let statements = statements.split("\\x0a").filter(|line| !line.trim().is_empty());
        let statements = statements.map(|line| ("INCLEXCL".to_owned(), line.to_owned(), true));
        let options = set.current.options.iter();
        let options = options
            .map(|option| (option.name.to_uppercase(), option.value.clone(), option.is_forced));
        for (number, (option, value, is_forced)) in (0_u64..).zip(options.chain(statements)) {
            table.add([
                ("OPTIONSET_NAME", set.name.as_str().into()),
                ("OPTION_NAME", option.into()),
                ("SEQNUMBER", number.into()),
                ("OPTION_VALUE", value.into()),
                ("FORCE", (if is_forced { "Yes" } else { "No" }).into()),
            ]);
        }
    }
    Ok(())
}
