//! Chat templates against transformers.

use millrace::text::{ChatTemplate, DateTime, SpecialTokens, TemplateSource};
use serde_json::{Map, Value, json};

use crate::common::{json_lines, worked};

fn template(text: &str) -> millrace::Result<ChatTemplate> {
    ChatTemplate::new(&TemplateSource::single(text), SpecialTokens::new())
}

fn render(text: &str) -> millrace::Result<String> {
    template(text)?.render(&json!([{"role": "user", "content": "Hi"}]), None, &Map::new(), true)
}

/// `2026-07-04T09:05:03` as a time.
fn time(text: &str) -> DateTime {
    assert_eq!(text, "2026-07-04T09:05:03", "the cases share one time");
    DateTime::from_unix(1_783_155_903)
}

#[test]
fn every_case_renders_as_in_transformers() {
    let mut failures = Vec::new();
    for case in json_lines("tokenizer/templates.jsonl") {
        let name = case["name"].as_str().unwrap();
        let mut special = SpecialTokens::new();
        for key in ["bos_token", "eos_token"] {
            if let Some(text) = case[key].as_str() {
                special.insert(key.to_owned(), text.to_owned());
            }
        }
        let result =
            ChatTemplate::new(&TemplateSource::single(case["template"].as_str().unwrap()), special).and_then(|t| {
                t.with_now(time(case["now"].as_str().unwrap())).render(
                    &case["messages"],
                    Some(&case["tools"]),
                    case["extra"].as_object().unwrap(),
                    case["add_generation_prompt"].as_bool().unwrap(),
                )
            });
        let outcome =
            match (&result, case.get("rendered").and_then(Value::as_str), case.get("error").and_then(Value::as_str)) {
                (Ok(text), Some(expected), _) => text == expected,
                (Err(e), _, Some(expected)) => e.code() == "TEMPLATE" && e.message().ends_with(expected),
                _ => false,
            };
        if !outcome {
            failures.push(format!("{name}\n  got {result:?}\n  not {:?}{:?}", case.get("rendered"), case.get("error")));
        }
    }
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn what_one_filter_or_method_would_make_too_long_is_refused() {
    for expression in [
        "'%1000000000d'|format(1)",
        "'%*d'|format(1000000000, 1)",
        "'{:>1000000000}'.format('x')",
        "'{:{}}'.format('x', 1000000000)",
        "'a\\nb'|indent(10**9)",
        "'a\\nb'|indent(width=10**9)",
        "('a' * n)|replace('a', 'b' * n)",
        "('a' * n)|replace('', 'b' * n)",
        "('a' * n).replace('a', 'b' * n)",
        "('a' * n)|replace('a', 'b' * n, n)",
        "['a' * n]|replace('a', 'b' * n, n)",
        "range(n - 10000)|join('b' * n)",
        "('b' * n).join(range(n - 10000)|list)",
    ] {
        let (rendered, seconds) = worked(|| render(&format!("{{% set n = 100000 %}}\n{{{{ {expression} }}}}")));
        let error = rendered.unwrap_err();
        assert_eq!(error.code(), "TEMPLATE", "{expression}");
        assert!(
            error.message().contains("line 2") && error.message().contains("would make more than"),
            "{expression}: {error}"
        );
        assert!(seconds < 1.0, "{expression} took {seconds} s");
    }
    for (expression, expected) in [
        ("'%05d|%s'|format(42, 'x')", "00042|x"),
        ("'{:>4}|{}'.format('x', 123456789)", "   x|123456789"),
        ("'a\\nb'|indent(2)", "a\n  b"),
        ("'a\\nb'|indent(2, true)", "  a\n  b"),
        ("'aXbX'|replace('X', '--')", "a--b--"),
        ("'aXbX'.replace('X', '-', 1)", "a-bX"),
        ("[1, 2.5, 'x']|join(', ')", "1, 2.5, x"),
        ("[{'n': 1}, {'n': 2}]|join('+', attribute='n')", "1+2"),
        ("[1, 2]|join(d='-')", "1-2"),
        ("', '.join(['a', 'b'])", "a, b"),
    ] {
        assert_eq!(render(&format!("{{{{ {expression} }}}}")).unwrap(), expected, "{expression}");
    }
}

#[test]
fn memory_and_time_are_bounded_beside_instructions() {
    let twice = |start: &str, step: &str| {
        format!(
            "{{% set ns = namespace(s={start}) %}}\n{{% for i in range(60) %}}{{% set ns.s = {step} %}}{{% endfor %}}{{{{ ns.s|length }}}}"
        )
    };
    let often = |work: &str| {
        format!(
            "{{% set n = 10000000 %}}{{% set s = 'x' * n %}}\n{{% for i in range(90000) %}}{{% set t = {work} %}}{{% endfor %}}"
        )
    };
    for text in [
        twice("'x'", "ns.s ~ ns.s"),
        twice("'x'", "ns.s + ns.s"),
        twice("'x'", "ns.s * 2"),
        twice("'x'", "ns.s|replace('x', 'xx')"),
        twice("'x'", "[ns.s, ns.s]|join"),
        twice("[1]", "ns.s + ns.s"),
        twice("[1]", "ns.s * 2"),
        twice("[1]", "[ns.s, ns.s]"),
        twice("[1]", "{'a': ns.s, 'b': ns.s}"),
        "\n{% set ns = namespace(s=[1]) %}{% for i in range(90000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}".to_owned(),
        "\n{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('ab') }}".to_owned(),
        "\n{% set s %}{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}".to_owned(),
        "\n{% for i in range(90000) %}0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789{% endfor %}".to_owned(),
        "\n{{ 'x' * 100000000 }}".to_owned(),
        "\n{{ [[1] * 10000] * 100000 }}".to_owned(),
        "\n{{ (('x' * 10000) ~ 'y') * 10000 }}".to_owned(),
        often("s[::-1]"),
        often("s|upper"),
        often("s|trim|length"),
        often("s.replace('x', 'y')"),
        often("s.split('y')"),
        often("s in s"),
        often("s == s ~ 'y'"),
        "\n{% set l = range(90000)|list %}{% for i in range(90000) %}{% set t = l|sort %}{% endfor %}".to_owned(),
    ] {
        let (rendered, seconds) = worked(|| render(&text));
        let error = rendered.err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(error.code(), "TEMPLATE", "{text}");
        assert!(error.message().contains("line ") || error.message().contains("does not end") || error.message().contains("writes more"), "{text}: {error}");
        // A second in a release build.
        assert!(seconds < 6.0, "{text} took {seconds} s");
    }
    // Long conversations are not affected.
    let messages: Vec<_> =
        (0..1000).map(|i| json!({"role": if i % 2 == 0 { "user" } else { "assistant" }, "content": format!("{i} {}", "word ".repeat(400))})).collect();
    let text = "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' and m.content is string and not m.content.startswith('<') %}\
        {% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% set content = m.content|trim %}\
        {% if loop.index0 == messages|length - 1 or 'tool_calls' in m %}{{ '[' ~ ns.last ~ ']' }}{% endif %}\
        {{ '<' + m.role + '>' + content.split('</x>')[-1].lstrip('\\n') + '</' ~ m['role'] ~ '>' }}{% endfor %}{{ messages[1:][::-1]|length }}";
    let rendered = template(text).unwrap().render(&json!(messages), None, &Map::new(), true).unwrap();
    assert!(rendered.len() > 2_000_000 && rendered.ends_with("999"), "{}", rendered.len());
}

#[test]
fn expressions_that_nest_without_end_are_refused_when_the_template_is_read() {
    let many = |one: &str| one.repeat(100_000);
    for text in [
        format!("one\n{{{{ 1{} }}}}", many(" + 1")),
        format!("one\n{{{{ 'x'{} }}}}", many("|upper")),
        format!("one\n{{% set x = 'x'{} %}}", many(" ~ 'x'")),
        format!("one\n{{{{ x{} }}}}", many(".y")),
        format!("one\n{{% if x %}}{}{{% endif %}}", many("{% elif x %}")),
        // As long as a template may be, with no tag of another kind.
        format!("one\n{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(80_000)),
        format!("one\n{{{{ {}1{} }}}}", many("("), many(")")),
        format!("one\n{{{{ 1{}", many(" + 1")),
    ] {
        let (read, seconds) = worked(|| template(&text));
        let error = read.err().unwrap();
        assert_eq!(error.code(), "TEMPLATE");
        assert!(error.message().contains("line 2") || error.message().contains("bytes"), "{error}");
        assert!(seconds < 6.0, "{} took {seconds} s", &text[..40]);
    }
    // Long texts, strings with operators in them and many tags do not count as long expressions.
    let text = format!("{}{{{{ '{}' }}}}{}", many("a | b "), " | }} + ".repeat(10_000), "{{ 1 }}".repeat(5_000));
    assert!(render(&text).unwrap().ends_with("1111"));
    assert!(render(&format!("{{{{ 1{} }}}}", " + 1".repeat(400))).unwrap() == "401");
}

#[test]
fn a_template_that_does_not_end_is_stopped() {
    let error = render("{% macro f() %}{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}{% endmacro %}{{ f() }}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("does not end"), "{error}");
    let error = render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
}

#[test]
fn a_template_that_writes_too_much_is_stopped() {
    let error = render("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("16 MiB"), "{error}");
}

#[test]
fn errors_name_the_line_and_say_what() {
    let error = template("a\n{% if %}").err().unwrap();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("line 2"), "{error}");
    let error = render("\n\n{{ messages[7].content }}").unwrap_err();
    assert!(error.message().contains("line 3"), "{error}");
    let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(error.message(), "the chat template refuses the conversation: roles must alternate");
    assert_eq!(render("{% include 'secret' %}").unwrap_err().code(), "TEMPLATE");
}

#[test]
fn options_that_the_engine_sets_are_refused() {
    let template = template("{{ messages }}").unwrap();
    let extra = json!({"messages": []});
    let error = template.render(&json!([]), None, extra.as_object().unwrap(), false).unwrap_err();
    assert_eq!(error.code(), "BAD_OPTION");
    assert_eq!(template.render(&json!("hello"), None, &Map::new(), false).unwrap_err().code(), "BAD_OPTION");
    assert_eq!(template.render(&json!([]), Some(&json!({})), &Map::new(), false).unwrap_err().code(), "BAD_OPTION");
}

#[test]
fn an_empty_conversation_is_the_templates_business() {
    assert_eq!(template("{{ messages|length }}").unwrap().render(&json!([]), None, &Map::new(), false).unwrap(), "0");
}

/// The rendered text, or the error.
fn outcome(rendered: millrace::Result<String>) -> String {
    rendered.unwrap_or_else(|e| e.to_string())
}

/// A call of a tool with content or without, as clients send it.
fn turn(content: Option<Value>, arguments: Value) -> Value {
    let mut answer = json!({ "role": "assistant", "content": content, "tool_calls": [{ "id": "call00001", "type": "function",
        "function": { "name": "add", "arguments": arguments } }] });
    if content.is_none() {
        answer.as_object_mut().unwrap().remove("content");
    }
    json!([{ "role": "user", "content": "?" }, answer, { "role": "tool", "tool_call_id": "call00001", "name": "add", "content": "3" }])
}

#[test]
fn content_beside_calls_is_what_the_template_takes() {
    let null = Some(Value::Null);
    // The template's expression, then the expected results for content null, no content, and a text.
    let cases = [
        ("takes all", "{{ m.content or '' }}", ["", "", "x"]),
        ("fails at null and at none", "{{ '' + m.content }}", ["", "", "x"]),
        ("prints None", "{{ m.content }}", ["", "", "x"]),
        ("prints null", "{{ m.content if m.content is string else m.content | tojson }}", ["", "", "x"]),
        (
            "tells null apart",
            "{% if m.content is none %}nothing{% else %}{{ m['content'] | trim }}{% endif %}",
            ["nothing", "", "x"],
        ),
        (
            "refuses an empty one",
            "{% if m.content == '' %}{{ raise_exception('empty') }}{% endif %}{{ m.content or '' }}",
            ["", "", "x"],
        ),
        ("asks for it", "{% if 'content' in m %}{{ '' + m.content }}{% else %}absent{% endif %}", ["", "absent", "x"]),
    ];
    for (name, body, expected) in cases {
        let text =
            format!("{{% for m in messages %}}{{% if m.role == 'assistant' %}}[{body}]{{% endif %}}{{% endfor %}}");
        let template = template(&text).unwrap();
        for (content, expected) in [null.clone(), None, Some(json!("x"))].into_iter().zip(expected) {
            let rendered = template.render(&turn(content.clone(), json!({})), Some(&json!([])), &Map::new(), true);
            assert_eq!(outcome(rendered), format!("[{expected}]"), "{name}: {content:?}");
        }
    }
}

#[test]
fn arguments_are_what_the_template_takes() {
    let cases = [
        ("an object", "{{ c.arguments | tojson }}", [r#"{"a": 1, "b": "é"}"#, r#"{"a": 1, "b": "é"}"#]),
        (
            "items of an object",
            "{% for k, v in c.arguments.items() %}{{ k }}={{ v }};{% endfor %}",
            ["a=1;b=é;", "a=1;b=é;"],
        ),
        ("JSON", "{{ '' + c.arguments }}", [r#"{"a": 1, "b": "é"}"#, r#"{"a":1,"b":"é"}"#]),
        (
            "both",
            "{{ c.arguments if c.arguments is string else c.arguments | tojson }}",
            [r#"{"a": 1, "b": "é"}"#, r#"{"a":1,"b":"é"}"#],
        ),
    ];
    for (name, body, expected) in cases {
        let text = format!(
            "{{% for m in messages %}}{{% if m.tool_calls %}}{{% set c = m.tool_calls[0].function %}}{body}{{% endif %}}{{% endfor %}}"
        );
        let template = template(&text).unwrap();
        let given = [json!({ "a": 1, "b": "é" }), json!(r#"{"a":1,"b":"é"}"#)];
        for (arguments, expected) in given.into_iter().zip(expected) {
            let rendered =
                template.render(&turn(Some(json!("")), arguments.clone()), Some(&json!([])), &Map::new(), true);
            assert_eq!(outcome(rendered), expected, "{name}: {arguments}");
        }
    }
    // Arguments that are not JSON are the model's own mistake, and stay.
    let text = "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}";
    let rendered = template(text).unwrap().render(&turn(None, json!("{\"a\": ")), None, &Map::new(), true);
    assert_eq!(outcome(rendered), r#""{\"a\": ""#);
}

#[test]
fn no_tools_are_none_or_undefined_as_the_template_takes_it() {
    // transformers passes none; llama.cpp's templates are written for undefined.
    for (text, expected) in [
        ("{% if tools is defined %}{% for tool in tools %}{{ tool.name }}{% endfor %}Use them.{% endif %}", ""),
        ("{% if tools is not none %}You have tools.{% endif %}", ""),
        ("{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools is none }}", "True"),
        ("{% if tools %}tools{% else %}no tools{% endif %}", "no tools"),
        ("{{ tools | length }}", "0"),
    ] {
        assert_eq!(outcome(render(text)), expected, "{text}");
    }
}

#[test]
fn thoughts_have_the_name_that_the_template_asks_for() {
    let messages = |content: &str, calls: Value| json!([{ "role": "assistant", "reasoning_content": "hm", "content": content, "tool_calls": calls }]);
    let calls = json!([{ "type": "function", "function": { "name": "add", "arguments": {} } }]);
    let render =
        |text: &str, messages: &Value| template(text).unwrap().render(messages, None, &Map::new(), true).unwrap();
    let text = "{% for m in messages %}{{ m['thinking'] }}/{{ m.content }}{% endfor %}";
    assert_eq!(render(text, &messages("x", json!([]))), "hm/x");
    assert_eq!(render(text, &messages("", calls.clone())), "hm/");
    // gpt-oss refuses both beside a call.
    assert_eq!(render(text, &messages("x", calls)), "/x");
    assert_eq!(
        render("{% for m in messages %}{{ m.keys() | list | join(' ') }}{% endfor %}", &messages("x", json!([]))),
        "role reasoning_content content tool_calls"
    );
}

#[test]
fn keys_of_json_are_texts_as_in_python() {
    let rendered = render("{{ {true: 1, false: 2, none: 3, 0.5: 4, 6: 5, 'a': true} | tojson }}");
    assert_eq!(outcome(rendered), r#"{"true": 1, "false": 2, "null": 3, "0.5": 4, "6": 5, "a": true}"#);
}

/// Random expressions give Jinja's result, or are refused by name; expressions that Jinja refuses give none.
#[test]
fn expressions_at_random_are_as_in_jinja() {
    let lines = json_lines("tokenizer/expressions.jsonl");
    let variables = lines[0]["variables"].as_object().unwrap();
    let (mut refused, mut differ) = (Vec::new(), Vec::new());
    for case in &lines[1..] {
        let expression = case["expression"].as_str().unwrap();
        let source = TemplateSource::single(format!("{{{{ {expression} }}}}"));
        let ours = ChatTemplate::new(&source, SpecialTokens::new())
            .and_then(|template| template.render(&json!([]), None, variables, false));
        match (ours, case["rendered"].as_str()) {
            (Ok(ours), Some(theirs)) if ours == theirs => (),
            (Err(_), None) => (),
            (Err(e), Some(_)) => refused.push(format!("{expression}: {}", e.message())),
            (ours, theirs) => differ.push(format!("{expression}: {ours:?}, not {theirs:?}")),
        }
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), lines.len(), differ.join("\n"));
    assert!(
        refused.len() * 100 <= lines.len(),
        "{} of {} are refused:\n{}",
        refused.len(),
        lines.len(),
        refused.join("\n")
    );
}

/// The names in published templates' idioms that callers may set.
#[test]
fn options_are_the_variables_that_a_template_reads_and_does_not_set() {
    let cases: &[(&str, &[&str])] = &[
        (
            "{{ bos_token }}{% for m in messages %}{{ m.role }}{{ loop.index }}{% endfor %}{{ tools }}{{ documents }}",
            &[],
        ),
        ("{% if enable_thinking is defined and enable_thinking is false %}{% endif %}", &["enable_thinking"]),
        (
            "{% if not date_string is defined %}{% set date_string = '26 Jul' %}{% endif %}{{ date_string }}",
            &["date_string"],
        ),
        ("{% set think = think | default(true) %}{{ think }}", &["think"]),
        ("{% if strftime_now is defined and cycler is defined %}{{ strftime_now('%Y') }}{% endif %}", &[]),
        (
            "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% endif %}\
             {% if system is defined %}{{ system }}{% endif %}",
            &[],
        ),
        ("{% for x in a %}{% set y = x %}{% endfor %}{{ y ~ x }}", &["a", "y", "x"]),
        ("{% for k, v in d.items() if w %}{{ k }}{{ v }}{% endfor %}{{ messages[1:n] }}", &["d", "w", "n"]),
        (
            "{% macro f(a, b=none) %}{% set c = a %}{{ a ~ b ~ c ~ outer ~ caller() }}{% endmacro %}{{ f(1) ~ c }}",
            &["outer", "c"],
        ),
        ("{% macro f(a, b=a) %}{{ b }}{% endmacro %}{% call(x) f(1) %}{{ x ~ y }}{% endcall %}", &["y"]),
        ("{% with a = b %}{{ a }}{% endwith %}{{ a }}", &["b", "a"]),
        (
            "{% set ns = namespace(effort=reasoning_effort or 'low') %}{% set ns.x = z %}{{ ns.x }}",
            &["reasoning_effort", "z"],
        ),
        (
            "{% generation %}{{ inside }}{% endgeneration %}{% filter upper %}{{ text }}{% endfilter %}",
            &["inside", "text"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(template(text).unwrap().variables(), *expected, "{text}");
    }
}

/// Expressions and statements that minijinja does otherwise or not at all, with Jinja's results.
#[test]
fn what_minijinja_does_otherwise_is_as_in_jinja() {
    let cases = [
        // Slices: none is a panic.
        ("{{ [][::-1] }}{{ ''[::-1] }}{{ [][-1:0:-1] }}", "[][]"),
        ("{{ messages[1:][::-1] | length }}", "0"),
        ("{{ [1, 2, 3][::-1] }}{{ [1, 2, 3][:0:-1] }}{{ [1, 2, 3][-1:0:-1] }}", "[3, 2, 1][3, 2][3, 2]"),
        ("{{ [1, 2, 3][10::-1] }}{{ [1, 2, 3][-10::-1] }}{{ [1, 2, 3][::-5] }}", "[3, 2, 1][][3]"),
        ("{{ 'abcdef'[4:1:-2] }}|{{ 'éàü'[-9:2] }}|{{ 'abc'[5:] }}|{{ 'abc'[:-1] }}|{{ 'abc'[2:0] }}", "ec|éà||ab|"),
        ("{{ (1, 2, 3)[::2] }}{{ [1, 2][true:] }}{{ [1][99999999999999999999:] }}", "(1, 3)[2][]"),
        // Numbers have parts, truth values are 0 and 1.
        (
            "{% set x = 5 %}{{ x.real }}{{ x.imag }}{{ x.numerator }}{{ x.denominator }}{{ x['real'] }}{{ (5).real }}",
            "505155",
        ),
        (
            "{{ 1.5.real }} {{ 1.5.imag }} {{ 1.5.numerator is defined }} {{ true.real }} {{ {'real': 3}.real }}",
            "1.5 0.0 False 1 3",
        ),
        ("{{ {1: 'a', 1.0: 'b'} }}{{ {true: 'a'}[1] }}{{ {0: 'b', true: 'a'} }}", "{1: 'b'}a{0: 'b', True: 'a'}"),
        ("{% filter upper %}a{% filter replace('A', 'b') %}A{% endfilter %}{% endfilter %}", "AB"),
        ("{% set x | length %}abc{% endset %}{{ x + 1 }}", "4"),
        ("{% block a %}x{% endblock %}{{ self.a() }}", "xx"),
        // Loops know their length.
        (
            "{% for c in 'abc' %}{{ c }}{{ loop.length }}{{ loop.revindex0 }}{{ loop.last }} {% endfor %}",
            "a32False b31False c30True ",
        ),
        (
            "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ loop.length }}{{ loop.last }} {% endfor %}",
            "a2False b2True ",
        ),
        ("{% for c in 'abc' if c != 'b' %}{{ c }}{{ loop.length }}{% else %}none{% endfor %}", "a2c2"),
        ("{% for c in '' %}x{% else %}empty{% endfor %}", "empty"),
        ("{% for c in 'abc' %}{{ loop.cycle('x', 'y') }}{{ loop.changed(1) }} {% endfor %}", "xTrue yFalse xFalse "),
        // Macros.
        (
            "{% macro f() %}{{ varargs }}{% endmacro %}{{ f(1) }}{{ f.catch_varargs }}{{ f.catch_kwargs }}{{ f.arguments }}",
            "(1,)TrueFalse()",
        ),
        (
            "{% macro f(a) %}{{ kwargs }}{% endmacro %}{{ f(a=1, b=2) }}{{ f.catch_varargs }}{{ f.catch_kwargs }}{{ missing is defined }}",
            "{'b': 2}FalseTrueFalse",
        ),
        (
            "{% macro f(a, b=a, c=b ~ '!') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }} {{ f(b=3, a=0) }}",
            "111! 122! 033!",
        ),
        ("{% set a = 'o' %}{% macro f(a, b=(a if a else 'z')) %}{{ b }}{% endmacro %}{{ f(1) }}{{ f('') }}", "1z"),
        ("{% macro f(x) %}{{ caller(x) }}{% endmacro %}{% call(a, b=a) f(1) %}{{ a }}{{ b }}{% endcall %}", "11"),
        (
            "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 2, 3) }} {{ f(x='y', a=2) }}",
            "1(){} 1(2, 3){} 2(){'x': 'y'}",
        ),
        (
            "{% macro f() %}{{ caller(7) }}{{ kwargs }}{% endmacro %}{% call(x) f(k=1) %}{{ x }}{% endcall %}",
            "7{'k': 1}",
        ),
        // Namespaces and objects.
        ("{% set ns = namespace({'a': 1}, z=2) %}{% set ns.b = 3 %}{{ ns.a }}{{ ns.z }}{{ ns.b }}", "123"),
        ("{{ dict([('a', 1)], b=2) }}{{ dict({'x': 1}) }}", "{'a': 1, 'b': 2}{'x': 1}"),
        // Comparisons in a chain.
        (
            "{{ 1 < messages | length + 1 < 3 != 4 }}{{ 'a' in 'ab' in ['ab'] }}{{ 1 not in [2] == true }}",
            "TrueTrueFalse",
        ),
        // Filters.
        (
            "{{ '{\n' | indent(4, first=true) }}|{{ 'a\n\nb\n' | indent('>') }}|{{ 'a\n\n' | indent(1, false, true) }}",
            "    {\n|a\n\n>b\n|a\n \n ",
        ),
        (
            "{{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ '-0.5' | filesizeformat }}",
            "1 Byte 999 Bytes 1.5 MB 1.0 KiB 0 Bytes",
        ),
        ("{{ [{'a': 1, 'b': 2}, 'cd', [3, 4]] | urlencode }}", "a=b&c=d&3=4"),
        (
            "{{ 100000000000000000000 | round(1, 'ceil') }} {{ 25 | round(-1, 'floor') }} {{ 7 | round(0, 'floor') }}",
            "1e+20 20.0 7.0",
        ),
        (
            "{{ {'a': 1, 'b': none, 'c': '<\"'} | xmlattr }}|{{ {'a': 1} | xmlattr(autospace=false) }}",
            " a=\"1\" c=\"&lt;&#34;\"|a=\"1\"",
        ),
        (
            "{{ [1, 2, 3] | slice(5) | list }}{{ [1, 2, 3] | batch(100000000) | list }}",
            "[[1], [2], [3], [], []][[1, 2, 3]]",
        ),
        ("{% autoescape false %}{{ '<' }}{% endautoescape %}", "<"),
        // Line ends.
        ("a\r\nb{{ 'x\r\ny\rz' }}{{ 'x\\r\\ny' }}\rc{% if true %}\r\nd{% endif %}\r\n", "a\nbx\ny\nzx\r\ny\ncd"),
        // Ranges.
        ("{{ range(3) }} {{ range(1, 4) ~ '' }} {{ [range(5, 0, -2)] }}", "range(0, 3) range(1, 4) [range(5, 0, -2)]"),
        ("{{ range(3) | list }}{{ range(5, 0, -2) | list }}{{ range(0) | list }}", "[0, 1, 2][5, 3, 1][]"),
        ("{{ range(9)[1:7:2] }}{{ range(9)[::-1] | list | length }}{{ range(4)[-1] }}", "range(1, 7, 2)93"),
        ("{{ range(2) == [0, 1] }}{{ range(2) == range(0, 2) }}{{ 1 in range(2) }}", "FalseTrueTrue"),
        ("{% for n in range(2, 0, -1) %}{{ n }}{{ loop.last }} {% endfor %}{{ range(3) | length }}", "2False 1True 3"),
        // Items.
        ("[{{ [1, 2, 3][2.0] }}{{ 'abc'[1.0] }}] {{ {2: 'a'}[2.0] }}{{ [1, 2][true] }}{{ [1, 2][1] }}", "[] a22"),
        ("[{% set i = 1.0 %}{{ [1, 2][i] }}{{ [1, 2][1 if i else 0.5] }}]", "[2]"),
        // `format`.
        (
            "{{ '{!r} {0!r}'[:4].format('a') }} {{ '{0!r:>5}|{x!s}|{1!a}'.format('a', 'é', x=none) }}",
            "'a'   'a'|None|'\\xe9'",
        ),
        ("{{ '{} {} {}'.format(['a', none], {'b': true}, range(2)) }}", "['a', None] {'b': True} range(0, 2)"),
        ("{{ '{0[a][1]}{{}}{1.x}'.format({'a': [1, 'z']}, {'x': ['q']}) }}", "z{}['q']"),
        // What is not defined has no items.
        ("{% for x in nothing %}x{% else %}empty{% endfor %}", "empty"),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(render(text)), expected, "{text}");
    }
}

/// What is refused, with the words of the error; the first when the template is read.
#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (text, words) in [
        ("a\n{% if false %}{{ 'a' | wordwrap(3) }}{% endif %}", ["'wordwrap'", "line 2"]),
        ("{% macro f() %}{{ 'a' | striptags }}{% endmacro %}", ["'striptags'", "line 1"]),
        ("\n{{ [1] | random }}", ["'random'", "line 2"]),
        ("{{ 'a' | urlize }}", ["'urlize'", "line 1"]),
        ("{% autoescape true %}{{ '<' }}{% endautoescape %}", ["autoescape", "line 1"]),
        ("{% autoescape x %}{{ '<' }}{% endautoescape %}", ["autoescape", "line 1"]),
        ("{{ +1 }}", ["`+`", "line 1"]),
        ("{{ 5. }}", ["5.", "line 1"]),
        ("\n{{ 5. + 1 }}", ["5.", "line 2"]),
        ("{{ self }}", ["'self'", "line 1"]),
        ("{{ self is defined }}", ["'self'", "line 1"]),
        ("{% for x in [1] %}{% if x %}{% continue %}{% endif %}{% else %}e{% endfor %}", ["'continue'", "line 1"]),
        ("{% for x in [1] %}{{ x }}{% break %}{% else %}e{% endfor %}", ["'break'", "line 1"]),
        ("{% for x in [1] if x %}{% for y in x %}{% endfor %}{% break %}{% else %}e{% endfor %}", ["'else'", "line 1"]),
    ] {
        let error = template(text).err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(error.code(), "TEMPLATE", "{text}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{text}: {error}");
    }
    for (text, word) in [
        ("{{ [1, 2, 3][::0] }}", "step"),
        ("{{ messages[x:] }}", "whole numbers"),
        ("{{ messages[0][0:1] }}", "map"),
        ("{% for c in 'abc' %}{{ loop.cycle() }}{% endfor %}", "cycle"),
        ("{{ [1, 2, 3] | slice(100000000) | list | length }}", "slice"),
        ("{{ [1, 2, 3] | batch(100000000, 0) | list | length }}", "batch"),
        ("{{ {'a b': 1} | xmlattr }}", "a b"),
        ("{{ messages[0].get('x', default=1) }}", "default"),
        ("{% macro f(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ f(1, a=2) }}", "'a'"),
        ("{% macro f() %}{{ varargs }}{% endmacro %}{{ f(x=1) }}", "'x'"),
        ("{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(1) }}", "not more than 0"),
        ("{% filter length %}abc{% endfilter %}", "no text"),
        ("{% filter list %}abc{% endfilter %}", "no text"),
        ("{% set x = 5 %}{{ x.bit_length() }}", "bit_length"),
        ("{% set x = 5 %}{{ x.bit_length }}", "no text of its own"),
        ("{% set x = 1 %}{{ x < 'a' < 3 }}", "<"),
        ("{% for x in none %}{% endfor %}", "none is not iterable"),
        ("{% for x in {'a': none}.a if x %}{% endfor %}", "none is not iterable"),
        ("{{ range(2) + [1] }}", "range"),
        ("{{ range(2.0) }}", "range"),
        ("{{ range(1, 2, 0) }}", "step"),
        ("{{ range(100001) }}", "too many"),
        ("{{ '{:>5}'.format([1]) }}", "'>5'"),
        ("{{ '{!x}'.format(1) }}", "'x'"),
        ("{{ '{}{0}'.format(1) }}", "numbered"),
        ("{{ '{} {}'.format(1) }}", "'{}'"),
        ("{{ '{:{w}}'.format('a', w=5) }}", "format"),
    ] {
        let error = render(text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(error.code() == "TEMPLATE" && error.message().contains(word), "{text}: {error}");
    }
}

/// What leaves a loop leaves the innermost alone, and the `else` of another has nothing to do with it.
#[test]
fn loops_with_an_else_hold_others_that_are_left() {
    for (text, wanted) in [
        ("{% for x in [] %}{% for y in [1] %}{% continue %}{% endfor %}{% else %}e{% endfor %}", "e"),
        ("{% for x in [5] %}{% for y in [1, 2] %}{{ y }}{% break %}{% endfor %}{% else %}e{% endfor %}", "1"),
        ("{% for x in [1] %}{% for y in [] %}{% else %}e{% endfor %}{% continue %}{{ x }}{% endfor %}", "e"),
        ("{% for x in [1, 2] %}{% if x == 1 %}a{% else %}b{% endif %}{% else %}e{% endfor %}", "ab"),
        ("{% for x in [0] if x %}{% if x %}a{% endif %}{% else %}e{% endfor %}", "e"),
    ] {
        assert_eq!(render(text).unwrap_or_else(|error| panic!("{text}: {error}")), wanted, "{text}");
    }
}

/// Keys 1 and true are one in Jinja. Here they are equal with other hashes, which are new in each object: asked often,
/// since an object that compares them itself finds them equal once in a while. Objects of literals alone are refused
/// when the template is read.
#[test]
fn keys_that_are_one_in_jinja_are_refused_whatever_their_hashes() {
    for (text, words, when_read) in [
        ("{{ {1: 'a', true: 'b'} }}", ["keys 1 and True", "line 1"], true),
        ("\n{{ {'x': {0: 'a', false: {}}} }}", ["keys 0 and False", "line 2"], true),
        ("{% set k = false %}{{ {0: 'a', k: 'b'} }}", ["keys 0 and", ""], false),
        ("{% set k = true %}{{ {0: 'a', 'x': [k], k: k, 1.0: 1} }}", ["keys 1 and", ""], false),
        ("{{ dict([[1, 'a'], [true, 'b']]) }}", ["keys 1 and", ""], false),
    ] {
        assert_eq!(template(text).is_err(), when_read, "{text}");
        for _ in 0..500 {
            let error = render(text).err().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(error.code(), "TEMPLATE", "{text}");
            assert!(words.iter().all(|word| error.message().contains(word)), "{text}: {error}");
        }
    }
}

/// As QwQ's: null beside calls fails, but not at the conversation's end.
#[test]
fn content_is_what_the_template_takes_wherever_it_stands() {
    let text = "{% for m in messages %}{% if m.role == 'assistant' %}{% set c = m.content %}\
        {% if not loop.last %}{% set c = m.content.split('</think>')[-1] %}{% endif %}[{{ c }}{{ m.tool_calls[0].function.name }}]\
        {% endif %}{% endfor %}";
    let rendered = template(text).unwrap().render(&turn(Some(Value::Null), json!({})), None, &Map::new(), true);
    assert_eq!(outcome(rendered), "[add]");
}

/// Operators of literals, which minijinja would do while it compiles; others by the same rules.
#[test]
fn operators_are_pythons() {
    for (expression, expected) in [
        ("1 == 1.0, true + 1, [1] + [2], 'a' * 2, 5 // -2, -5 % 3, 2 ** -1", "(True, 2, [1, 2], 'aa', -3, 1, 0.5)"),
        ("'a' in 'abc', not 1, -true, 'a' * -1, [1] * true, true * 3", "(True, False, -1, '', [1], 3)"),
        ("'a' ~ 1 ~ 1.0 ~ none ~ [] ~ 'b' 'c', [] == [], not []", "('a11.0None[]bc', True, True)"),
        (
            "2 ** 3 ** 2, -2 ** 2, 7 / 2, 6 / 2, 10 ** 20, 0.1 + 0.2, 1e16",
            "(64, 4, 3.5, 3.0, 100000000000000000000, 0.30000000000000004, 1e+16)",
        ),
        ("1 < 2 < 3, 1 in [1.0], 2 is divisibleby 2, 1 is not none, {'a': 1}.a + 1", "(True, True, True, True, 2)"),
        ("'x' % [], '%s' % [1], 'é%s' % 'é'", "('x', '[1]', 'éé')"),
        ("[1, 2, 3][1.5 if undefined_name else 2], [1, 2][0 or 1], {'a': 1}['b' if 0 else 'a']", "(3, 2, 1)"),
    ] {
        assert_eq!(outcome(render(&format!("{{{{ ({expression}) }}}}"))), expected, "{expression}");
    }
    assert_eq!(outcome(render("[{{ [1, 2, 3][1.5 if 1 else 2] }}]")), "[]");
    for (expression, words) in [
        ("1 < 'a'", "< is not for"),
        ("'a' + 1", "+"),
        ("-'a'", "invalid operation"),
        ("1 // 0", "//"),
        ("1 % 0", "%"),
        ("0 ** -1", "**"),
        ("(-8) ** 0.5", "unable to calculate -8 ** 0.5"),
        ("2.0 ** 10000", "unable to calculate 2.0 ** 10000"),
        ("'a' * 1.0", "* is not for string and number"),
        ("[] < {}", "< is not for"),
        ("1 in 'abc'", "cannot be in"),
        ("[1] in {}", "cannot be in"),
        ("'%s'|format(1, [])", "not all arguments"),
    ] {
        let error = render(&format!("\n{{{{ {expression} }}}}")).err().unwrap_or_else(|| panic!("{expression}"));
        assert!(error.message().contains(words) && error.message().contains("line 2"), "{expression}: {error}");
    }
}

#[test]
fn texts_are_measured_in_characters() {
    for (expression, expected) in [
        (
            "'{:>5}|{:<5}|{:^6}|{:*^4}|{:é>3}|{:.2}|{:4.1}|{:>03}|{:03}|{:s}'.format('é', 'é', 'é', 'é', \
             'x', 'é日本', 'é日', 'é', 'é', 'é')",
            "    é|é    |  é   |*é**|ééx|é日|é   |00é|é00|é",
        ),
        ("'%5s|%-5s|%.2s|' % ('é', 'é', 'é日本')", "    é|é    |é日|"),
        ("'é日'|center(5) ~ '|' ~ 'é'.ljust(3, '日') ~ 'é'.rjust(3) ~ '-é'.zfill(4)", "  é日 |é日日  é-00é"),
        ("'é日本 語 abc'|truncate(5, true, '…', 0) ~ 'é\n日'|indent(1) ~ 'é日 a-b'|wordcount", "é日本 …é\n 日3"),
        (
            "'ßa'|capitalize ~ 'ΑΣ bΣ'.title() ~ 'ß'.casefold() ~ '日a'.title() ~ 'ǆ'.title() ~ '\u{1c} a'|trim",
            "SsaΑς Bςss日Aǅa",
        ),
        ("'ßa'.capitalize() ~ 'aΣ'|title", "SsaAσ"),
    ] {
        assert_eq!(outcome(render(&format!("{{{{ {expression} }}}}"))), expected, "{expression}");
    }
}

/// What is gone through and is no list: Python tells it from lists.
#[test]
fn generators_and_views_are_no_lists() {
    let d = "{% set d = {'b': 1, 'a': 2} %}{% set l = [3, 1, 2] %}";
    for (text, expected) in [
        (
            "{{ d.keys() }}{{ d.values() ~ '' }}{{ d.items() }}",
            "dict_keys(['b', 'a'])dict_values([1, 2])dict_items([('b', 1), ('a', 2)])",
        ),
        (
            "{{ d.items()[0] }}{{ d.items()|length }}{{ d.keys()|sort|join }}{{ 'a' in d.keys() }}\
             {{ d.keys() is sequence }}",
            "2abTrueFalse",
        ),
        (
            "{% for k, v in d.items() %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}{{ d.keys() == ['b', 'a'] }}",
            "b1Falsea2TrueFalse",
        ),
        ("{% set g = l|map('string') %}{{ g|join }}-{{ g|join }}", "312-"),
        ("{% set g = l|select %}{{ g|first }}{{ g|list }}", "3[1, 2]"),
        (
            "{{ 'y' if l|select('gt', 9) else 'n' }}{{ (l|map('string'))[0] }}{{ l|reverse|list }}\
             {{ l|reverse|reverse }}",
            "y[2, 1, 3][3, 1, 2]",
        ),
        (
            "{% for x in l|batch(2) %}{{ x }}{{ loop.length }}{% endfor %}{{ ', '.join(l|map('string')) }}",
            "[3, 1]2[2]23, 1, 2",
        ),
        ("{{ range(3)|list|tojson }}{{ d.keys()|list|tojson }}", "[0, 1, 2][\"b\", \"a\"]"),
        (
            "{{ [{'n': 'b'}, {'n': 'B'}]|groupby('n') }}{% for g in [{'n': 1}]|groupby('n') %}\
             {{ g.grouper }}{{ g.list }}{{ g[-2] }}{% endfor %}",
            "[('b', [{'n': 'b'}, {'n': 'B'}])]1[{'n': 1}]1",
        ),
    ] {
        assert_eq!(outcome(render(&format!("{d}{text}"))), expected, "{text}");
    }
    for (expression, words) in [
        ("range(3)|tojson", "range is not JSON"),
        ("d.keys()|tojson", "dict_keys is not JSON"),
        ("l|map('string')|tojson", "generator is not JSON"),
        ("l|map('string')|length", "not for a generator"),
        ("(l|select) + [1]", "+ is not for a generator"),
        ("d.keys() + ['c']", "+ is not for a dict_keys"),
        ("l|map('string')", "`list`"),
        ("(l|unique) ~ ''", "`list`"),
        ("[{}]|groupby('n')", "'n'"),
    ] {
        let error = render(&format!("{d}{{{{ {expression} }}}}")).err().unwrap_or_else(|| panic!("{expression}"));
        assert!(error.message().contains(words), "{expression}: {error}");
    }
}

#[test]
fn blocks_that_are_kept_have_their_own_names() {
    for (text, expected) in [
        ("{% set q = 1 %}{% set a %}{% set q = 2 %}{{ q }}{% endset %}{{ a }}{{ q }}", "21"),
        ("{% filter upper %}{% set q = 'x' %}{{ q }}{% endfilter %}{{ q is defined }}", "XFalse"),
        (
            "{% for a in [1, 2, 3] %}{% with b = 1 %}{% if a == 2 %}{% break %}{% endif %}{{ a }}\
             {% endwith %}{% endfor %}x",
            "1x",
        ),
        (
            "{% for a in [1, 2, 3] %}{% set q %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}\
             {% endset %}{{ q }}{% endfor %}",
            "13",
        ),
        ("{% set ns = namespace(n=1) %}{% set a %}{% set ns.n = 2 %}{% endset %}{{ ns.n }}", "2"),
        (
            "{% set a %}{% for i in [1, 2] %}{{ i }}{% endfor %}{% endset %}\
             {% set b | upper %}x{{ a }}{% endset %}{{ b }}",
            "X12",
        ),
    ] {
        assert_eq!(outcome(render(text)), expected, "{text}");
    }
}

#[test]
fn macros_are_given_what_is_not_defined() {
    let f = "{% macro f(a, b=2) %}[{{ a }}{{ b }}{{ b is defined }}]{% endmacro %}";
    for (text, expected) in [
        ("{{ f(1) }}{{ f(1, nothing) }}{{ f(1, b=nothing) }}{{ f(1, 3) }}", "[12True][1False][1False][13True]"),
        ("{{ f }}{{ f.arguments }}{{ f is callable }}{{ f is mapping }}", "<Macro 'f'>('a', 'b')TrueFalse"),
        (
            "{% macro g(a=1) %}{{ a }}{{ varargs }}{% endmacro %}{{ g() }}{{ g(nothing) }}{{ g.arguments }}",
            "1()()('a',)",
        ),
        ("{% macro g() %}{{ caller(nothing) }}{% endmacro %}{% call(x=1) g() %}{{ x }}|{% endcall %}", "|"),
    ] {
        assert_eq!(outcome(render(&format!("{f}{text}"))), expected, "{text}");
    }
    for (text, word) in [("{{ f(1, 2, 3) }}", "more than 2"), ("{{ f(c=1) }}", "'c'"), ("{{ f(1, a=1) }}", "'a'")] {
        assert!(render(&format!("{f}{text}")).unwrap_err().message().contains(word), "{text}");
    }
}

/// A name behind a point is a method before it is a key, as in Jinja.
#[test]
fn methods_are_attributes() {
    let set = "{% set d = {'items': {'type': 's'}, 'pop': 1} %}{% set e = {'a': 1} %}{% set s = 'abc' %}";
    for (text, expected) in [
        ("{{ d.items is mapping }}{{ d['items'].type }}{{ d.items.type }}{{ d.pop }}{{ d['pop'] }}", "Falses1"),
        (
            "{% if e.items %}y{% endif %}{% if e['items'] %}y{% endif %}{{ e.items is callable }}\
             {{ e.update is defined }}",
            "yyTrueFalse",
        ),
        (
            "{% set f = s.upper %}{{ f() }}{{ s.upper is defined }}{{ s.nope is defined }}\
             {% set g = e.get %}{{ g('a') }}",
            "ABCTrueFalse1",
        ),
        ("{% set ns = namespace(items=1) %}{{ ns.items }}{{ ns.keys is defined }}{{ e|attr('a') }}|", "1False|"),
        ("{{ d.items()|length }}", "2"),
    ] {
        assert_eq!(outcome(render(&format!("{set}{text}"))), expected, "{text}");
    }
    for expression in ["d.items", "s.upper ~ ''"] {
        let error = render(&format!("{set}{{{{ {expression} }}}}")).unwrap_err();
        assert!(error.message().contains("a method"), "{expression}: {error}");
    }
}

#[test]
fn arguments_of_filters_are_pythons() {
    for (expression, expected) in [
        (
            "'0x1f'|int(0, 16), '0b11'|int(0, 0), '0o17'|int(0, 0), '-1f'|int(0, 16), '1_0'|int, '1__0'|int(9)",
            "(31, 3, 15, -31, 10, 9)",
        ),
        (
            "'nan'|int(9), 'inf'|int(9), '1e3'|int, ' 3.9 '|int, '1_'|float(9), '1_0.5'|float, 'x'|float",
            "(9, 9, 1000, 3, 9, 10.5, 0.0)",
        ),
        ("['b', 'A', 'a', 'B']|max, 'ab'|join(none), 1e16|upper, true|round(-1)", "('b', 'aNoneb', '1E+16', 0)"),
    ] {
        assert_eq!(outcome(render(&format!("{{{{ ({expression}) }}}}"))), expected, "{expression}");
    }
    for (expression, words) in [
        ("('1' ~ '0' * 40)|int", "too large"),
        ("1e100|int", "too large"),
        ("'٣'|int", "0 to 9"),
        ("'½'.isdigit()", "0 to 9"),
        ("'हि'.isalpha()", "letter"),
        ("['É', 'é']|sort", "case_sensitive"),
        ("{2: 1, 'x': 2}|dictsort", "< is not for"),
        ("[{'a': 1}, {}]|sum(attribute='a')", "'a'"),
        ("[{'a': {'b': 1}}, {'a': {}}]|sort(attribute='a.b')", "'a.b'"),
        ("'abc'.startswith(['a'])", "tuple"),
        ("'a'|trim(1)", "trim"),
        ("'a'|attr(0)", "attr"),
        ("'a'|sum(start='')", "sum"),
        ("'a'|replace('a', 'b', 1.5)", "count"),
        ("1|round(1, 'x')", "method"),
        ("1 is divisibleby(0)", "divisibleby"),
        ("[1, true]|unique|list", "unique"),
        ("{'b': 1, 'a': 2}|pprint", "pprint"),
        ("'x'|split('a')", "unknown filter"),
        ("1 is int", "unknown test"),
        ("'ab' is sameas 'ab'", "sameas"),
    ] {
        let error = render(&format!("{{{{ {expression} }}}}")).err().unwrap_or_else(|| panic!("{expression}"));
        assert!(error.message().contains(words), "{expression}: {error}");
    }
    for text in [
        "{% for r in [[1]] recursive %}{{ loop(none) }}{% endfor %}",
        "{% for r in [[1]] recursive %}{{ loop(none) ~ '' }}{% endfor %}",
    ] {
        assert!(render(text).unwrap_err().message().contains("none is not iterable"), "{text}");
    }
    assert_eq!(
        outcome(render(
            "{% for r in 'ab' recursive %}{{ r }}{% if loop.depth < 2 %}{{ loop('cd') }}{% endif %}{% endfor %}"
        )),
        "acdbcd"
    );
    assert!(render("{{ '\\U0001F600' }}").unwrap_err().message().contains("escape in line 1"));
}
