//! The command line of `dsmadmc` itself: its options, and the command after them.
//!
//! An option begins with `-`. Its value follows after `=` or `:`. Options are abbreviated as TSM's
//! are, and stand in any order before, after or between the words of the command.

use super::abbreviation;
use super::message::{Message, ReturnCode};
use super::table::Form;

/// An option of `dsmadmc`.
pub struct InvocationOption {
    /// Name, with TSM's shortest form in capitals.
    pub name: &'static str,
    pub takes_value: bool,
    /// Effect in this program.
    pub effect: &'static str,
}

const fn option(name: &'static str, takes_value: bool, effect: &'static str) -> InvocationOption {
    InvocationOption { name, takes_value, effect }
}

/// All options.
pub const OPTIONS: [InvocationOption; 18] = [
    option("ID", true, "accepted: the user who runs the program signs in"),
    option("PAssword", true, "accepted: the server knows who opens its administration socket"),
    option("SErvername", true, "the server's folder, or a name that the only server answers to"),
    option("DATAONLY", true, "yes: only the answers, without headings and titles"),
    option("COMMAdelimited", false, "answers with commas between values"),
    option("TABdelimited", false, "answers with tabs between values"),
    option("JSON", false, "each row as a JSON object, with the names of columns, and nothing else"),
    option("DISPLaymode", true, "list, or table"),
    option("OUTfile", true, "file for the answers, or without a value no pauses"),
    option("NOConfirm", false, "asks nothing before something is destroyed"),
    option("ITEMCommit", false, "accepted: each command is carried out by itself"),
    option("Quiet", false, "errors only"),
    option("CONsolemode", false, "shows the activity log as it grows"),
    option("MOUNTmode", false, "refused: 'holdfast admin queue' lists what waits for volumes"),
    option("ALWAYSPrompt", false, "accepted: the prompt is always shown"),
    option("NEWLINEAFTERPrompt", false, "a new line after the prompt"),
    option("OPTFILE", true, "accepted: no option file names the server"),
    option("CHECKAliashalt", false, "accepted: HALT has no other name"),
];

/// A parsed command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Invocation {
    pub id: Option<String>,
    pub server: Option<String>,
    pub data_only: bool,
    pub form: Option<Form>,
    /// True for rows as JSON objects.
    pub json: bool,
    /// File that takes the answers.
    pub outfile: Option<String>,
    pub no_confirm: bool,
    pub quiet: bool,
    pub console: bool,
    pub newline_after_prompt: bool,
    /// Command to run; empty for the prompt.
    pub command: String,
}

/// Parses the words after the name of the program.
pub fn parse(words: &[String]) -> Result<Invocation, Message> {
    let mut invocation = Invocation::default();
    let mut command: Vec<&str> = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        // A command such as `select -1 from db` is one word, and `q ev * * begind=-1` has no word
        // that begins with a sign and a letter.
        let begins_with_letter =
            |text: &str| text.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let text = match word.strip_prefix("--").filter(|text| begins_with_letter(text)) {
            // Holdfast's own commands write options with two dashes.
            Some("json" | "JSON") => "JSON",
            Some(_) => return Err(invalid(word, "it has one dash too many")),
            None => match word.strip_prefix('-').filter(|text| begins_with_letter(text)) {
                Some(text) => text,
                None => {
                    command.push(word);
                    continue;
                }
            },
        };
        let split = text.find(['=', ':']);
        let (name, mut value) = match split {
            Some(at) => (&text[..at], Some(text[at + 1..].to_owned())),
            None => (text, None),
        };
        let index = match abbreviation::resolve(name, OPTIONS.iter().map(|option| option.name)) {
            Ok(index) => index,
            // An option of the client, such as -errorlogname or -tcpserveraddress, is about a
            // connection over the network and its logs. Here there is neither.
            Err(_) if crate::options::find(name).is_some() => continue,
            Err(_) => return Err(invalid(word, "it is no option of dsmadmc")),
        };
        let option = &OPTIONS[index];
        // A program that gives `-id admin` in two words means the same.
        let is_separate = option.takes_value && value.is_none() && option.name != "OUTfile";
        if is_separate {
            value = words.next_if(|next| !next.starts_with('-')).cloned();
        }
        if option.takes_value && value.is_none() && option.name != "OUTfile" {
            return Err(invalid(word, "its value is missing"));
        }
        set(&mut invocation, option.name, value.unwrap_or_default(), word)?;
    }
    invocation.command = command.join(" ");
    if invocation.console && !invocation.command.is_empty() {
        return Err(invalid("-consolemode", "it shows the activity log, and takes no command"));
    }
    Ok(invocation)
}

fn set(invocation: &mut Invocation, name: &str, value: String, word: &str) -> Result<(), Message> {
    match name {
        "ID" => invocation.id = Some(value),
        "SErvername" => invocation.server = Some(value),
        "DATAONLY" => {
            invocation.data_only =
                yes_or_no(&value).ok_or_else(|| invalid(word, "give yes or no"))?;
        }
        "COMMAdelimited" => invocation.form = Some(Form::Comma),
        "TABdelimited" => invocation.form = Some(Form::Tab),
        "JSON" => {
            invocation.json = true;
            invocation.data_only = true;
        }
        "DISPLaymode" => {
            let form = form_of(&value).ok_or_else(|| invalid(word, "give list or table"))?;
            // Commas and tabs come before the mode, in whichever order they are given.
            invocation.form = invocation.form.filter(|form| form.is_delimited()).or(Some(form));
        }
        "OUTfile" => invocation.outfile = Some(value).filter(|file| !file.is_empty()),
        "NOConfirm" => invocation.no_confirm = true,
        "Quiet" => invocation.quiet = true,
        "CONsolemode" => invocation.console = true,
        "NEWLINEAFTERPrompt" => invocation.newline_after_prompt = true,
        "MOUNTmode" => {
            let reason = "'holdfast admin queue' lists the requests that wait for volumes";
            return Err(invalid(word, reason));
        }
        "PAssword" | "ITEMCommit" | "ALWAYSPrompt" | "OPTFILE" | "CHECKAliashalt" => {}
        _ => unreachable!("every option of the table has an arm"),
    }
    Ok(())
}

fn form_of(value: &str) -> Option<Form> {
    match abbreviation::resolve(value, ["LISt", "TABle"].into_iter()) {
        Ok(0) => Some(Form::List),
        Ok(_) => Some(Form::Table),
        Err(_) => None,
    }
}

/// Parses a switch, which may be abbreviated.
pub fn yes_or_no(value: &str) -> Option<bool> {
    match abbreviation::resolve(value, ["Yes", "No"].into_iter()) {
        Ok(0) => Some(true),
        Ok(_) => Some(false),
        Err(_) => None,
    }
}

fn invalid(word: &str, reason: &str) -> Message {
    let name: String = word.chars().take(40).take_while(|letter| *letter != '=').collect();
    let text = format!("The option {} is not valid: {reason}.", model::printable(&name));
    Message::refusal("ANS1107E", ReturnCode::Syntax, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Invocation, Message> {
        parse(&line.split('|').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_found_among_the_words() {
        let line = "-id=admin|-pa=secret|-se=/srv/holdfast|-comma|-DATAONLY=YES|q no|-noc";
        let invocation = parsed(line).expect("options of dsmadmc");
        assert_eq!(invocation.id.as_deref(), Some("admin"));
        assert_eq!(invocation.server.as_deref(), Some("/srv/holdfast"));
        assert_eq!(invocation.form, Some(Form::Comma));
        assert!(invocation.data_only && invocation.no_confirm);
        assert_eq!(invocation.command, "q no");
        let invocation = parsed("-id|admin|-password|x|-tab|-out|q|ev|*|*|begind=-1").expect("ok");
        assert_eq!(invocation.command, "q ev * * begind=-1");
        assert_eq!((invocation.form, invocation.outfile), (Some(Form::Tab), None));
    }

    #[test]
    fn tabs_and_commas_come_before_the_mode() {
        for line in ["-displaymode=table|-tab|x", "-tabdelimited|-displ=tab|x"] {
            assert_eq!(parsed(line).expect("ok").form, Some(Form::Tab), "{line}");
        }
        assert_eq!(parsed("-displaymode=list").expect("ok").form, Some(Form::List));
        let invocation = parsed("-json|q|node").expect("ok");
        assert!(invocation.json && invocation.data_only);
        let invocation = parsed("q|node|--json").expect("ok");
        assert!(invocation.json && invocation.command == "q node");
    }

    #[test]
    fn every_option_is_understood() {
        for option in &OPTIONS {
            let value = match option.name {
                "DATAONLY" => "=yes",
                "DISPLaymode" => "=list",
                _ if option.takes_value => "=x",
                _ => "",
            };
            let refused = parsed(&format!("-{}{value}", option.name)).is_err();
            assert_eq!(refused, option.effect.starts_with("refused"), "{}", option.name);
        }
    }

    #[test]
    fn options_of_the_client_are_accepted() {
        let line = "-tracefile=/dev/null|-errorlogname=/dev/null|-tcpport=1500|q|node";
        assert_eq!(parsed(line).expect("options of the client").command, "q node");
    }

    #[test]
    fn mistakes_are_named_and_secrets_are_not() {
        for (line, expected) in [
            ("-nosuch", "ANS1107E The option -nosuch is not valid: it is no option of dsmadmc."),
            ("-id", "ANS1107E The option -id is not valid: its value is missing."),
            ("--nosuch", "ANS1107E The option --nosuch is not valid: it has one dash too many."),
            (
                "-consolemode|q|node",
                "ANS1107E The option -consolemode is not valid: it shows the activity log, and \
                 takes no command.",
            ),
            (
                "-passwrd=secret",
                "ANS1107E The option -passwrd is not valid: it is no option of \
                                 dsmadmc.",
            ),
            ("-dataonly=maybe", "ANS1107E The option -dataonly is not valid: give yes or no."),
        ] {
            assert_eq!(parsed(line).expect_err("is refused").to_string(), expected);
        }
    }
}
