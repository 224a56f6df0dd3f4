//! Thoughts.

use super::Thought;

const PLAIN: Thought = Thought { shown_by: &[], open: "", prompts: &[], ends: &[], around: &[], anywhere: false };

pub static ALL: &[Thought] = &[
    // Kimi calls tools within its thoughts; no other family has these marks.
    Thought {
        open: "<think>",
        ends: &[("</think>", true), ("<|tool_calls_section_begin|>", false), ("<|tool_call_begin|>", false)],
        ..PLAIN
    },
    // Granite 3.3 and Hunyuan.
    Thought { shown_by: &["<response>"], around: &["<response>", "</response>"], ..PLAIN },
    Thought { shown_by: &["<answer>"], around: &["<answer>", "</answer>"], ..PLAIN },
    // EXAONE Deep, Reka Flash.
    Thought { shown_by: &["<thought>"], open: "<thought>", ends: &[("</thought>", true)], ..PLAIN },
    Thought { shown_by: &["<reasoning>"], open: "<reasoning>", ends: &[("</reasoning>", true)], ..PLAIN },
    Thought { shown_by: &["◁think▷"], open: "◁think▷", ends: &[("◁/think▷", true)], ..PLAIN },
    // Magistral, Ministral 3.
    Thought { shown_by: &["[THINK]"], open: "[THINK]", ends: &[("[/THINK]", true)], anywhere: true, ..PLAIN },
    // MiniMax M3.
    Thought { shown_by: &["<mm:think>"], open: "<mm:think>", ends: &[("</mm:think>", true)], ..PLAIN },
    Thought { shown_by: &["<seed:think>"], open: "<seed:think>", ends: &[("</seed:think>", true)], ..PLAIN },
    // Command R 7B, Command A.
    Thought {
        shown_by: &["<|START_THINKING|>", "<|CHATBOT_TOKEN|>"],
        open: "<|START_THINKING|>",
        ends: &[("<|END_THINKING|>", true)],
        around: &[
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|CHATBOT_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
        ],
        anywhere: true,
        ..PLAIN
    },
    // Apertus.
    Thought {
        shown_by: &["<|inner_prefix|>"],
        open: "<|inner_prefix|>",
        ends: &[("<|inner_suffix|>", true)],
        anywhere: true,
        ..PLAIN
    },
    // Apriel: the prompt has begun it.
    Thought {
        shown_by: &["[BEGIN FINAL RESPONSE]"],
        open: "Here are my reasoning steps:",
        ends: &[("[BEGIN FINAL RESPONSE]", true)],
        around: &["[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"],
        ..PLAIN
    },
    // Gemma 4; where the thought is left out, the answer begins with the closing mark of one that was never opened.
    Thought {
        shown_by: &["<|channel>"],
        open: "<|channel>thought",
        ends: &[("<channel|>", true)],
        around: &["<|channel>", "<channel|>"],
        anywhere: true,
        ..PLAIN
    },
];

/// Sections of harmony.
pub static HARMONY: Thought = Thought {
    ends: &[("<|end|>", true), ("<|return|>", true), ("<|call|>", true), ("<|start|>", false), ("<|channel|>", false)],
    ..PLAIN
};
