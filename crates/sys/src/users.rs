//! The users of the machine. Those of a directory service are not in its file, and have no names
//! here.

const USERS: &str = "/etc/passwd";

/// Returns the name of a user, as the file of the users has it; `None` if it does not have the
/// user.
pub fn name_of(user: u32) -> Option<String> {
    let users = std::fs::read(USERS).unwrap_or_default();
    name_in(&String::from_utf8_lossy(&users), user).map(str::to_owned)
}

/// Returns the name of a user in the text of [`USERS`], which has a line for each user: the name, a
/// field without meaning, the number, and more.
fn name_in(users: &str, user: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == user).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nodd:x:many:1::/:\n\
                     holdfast:x:997:996:Holdfast server:/var/lib/holdfast:/usr/sbin/nologin\n";
        assert_eq!(name_in(users, 997), Some("holdfast"));
        assert_eq!(name_in(users, 996), None, "a group is no user");
        assert_eq!(name_in("", 0), None);
    }
}
