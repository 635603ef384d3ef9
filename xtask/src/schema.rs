//! The JSON Schema of the record, as a file.

use crate::tools;

/// Writes the schema, or checks the file against it.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let path = tools::root().join("docs/punctual.run-2.schema.json");
    let text = serde_json::to_string_pretty(&punctual_report::export::json_schema())? + "\n";
    tools::write_or_compare(&path, text.as_bytes(), check, "schema")
}

#[cfg(test)]
#[path = "../../crates/record/tests/all/sample.rs"]
mod sample;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use jsonschema::Validator;
    use punctual_report::export::Exporter as _;
    use serde_json::Value;

    fn validator() -> Validator {
        jsonschema::validator_for(&punctual_report::export::json_schema()).unwrap()
    }

    fn complaints(value: &Value) -> Vec<String> {
        validator().iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_schema_has_its_name() {
        let schema = punctual_report::export::json_schema();
        assert_eq!(schema["$id"], Value::from(punctual_record::SCHEMA_ID));
        assert_eq!(schema["title"], Value::from(punctual_record::SCHEMA));
    }

    #[test]
    fn a_run_keeps_to_the_schema_and_what_is_wrong_does_not() {
        let mut bytes = Vec::new();
        punctual_report::export::Json.write(&super::sample::sample(), &mut bytes).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(complaints(&value), [] as [String; 0]);
        for (pointer, wrong) in
            [("/schema", Value::from("punctual.run/3")), ("/elapsed_ns", Value::from(-1)), ("/series", Value::Null)]
        {
            let mut value = value.clone();
            *value.pointer_mut(pointer).unwrap() = wrong;
            assert_ne!(complaints(&value), [] as [String; 0], "{pointer}");
        }
    }

    #[test]
    fn what_the_command_measures_keeps_to_the_schema() {
        // cargo builds the command with the tests of the workspace.
        let tests = std::env::current_exe().unwrap();
        let command = tests.parent().unwrap().with_file_name("punctual");
        if !command.exists() {
            return punctual_testing::skip("the command is not built: cargo build");
        }
        let args = ["wait", "nanosleep", "--for", "20us", "--samples", "100", "--no-keep", "--json", "-"];
        let output = Command::new(command).args(args).env("PUNCTUAL_LOCK_NAMESPACE", "").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(complaints(&serde_json::from_slice(&output.stdout).unwrap()), [] as [String; 0]);
    }
}
