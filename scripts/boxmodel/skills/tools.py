"""Calling one of two tools given as JSON schemas, and answering from the tool's result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from ..words import CITIES, COMMON_WORDS, CURRENCIES, DAYS, FOODS, GOODS, LANGUAGES, NAMES, ROOMS
from .base import Exchange, answer, casual, user
from .invent import invented, value


@dataclass(frozen=True)
class Tool:
    """A tool in several namings: the model must read the schema, not remember it."""

    names: tuple[str, ...]
    about: tuple[str, ...]
    # parameter: (its possible names, JSON type, values)
    params: dict[str, tuple[tuple[str, ...], str, list]]
    asks: tuple[str, ...]
    result: dict[str, list]  # what it returns: field, values
    says: str  # the answer made of arguments and result


WEATHER = ["sunny", "cloudy", "rainy", "windy", "foggy", "snowy"]
HOURS = list(range(6, 23))

FREE: list = []  # any few words

TOOLS = (
    Tool(("get_weather", "weather", "current_weather"), ("Get the weather in a city.", "Current weather of a city."),
         {"city": (("city", "location", "place"), "string", CITIES)},
         ("What is the weather in {city}?", "How is the weather in {city}?", "Is it warm in {city}?",
          "Tell me the weather in {city}.", "What is it like outside in {city}?", "Do I need a coat in {city}?",
          "Weather in {city}?", "Check the weather in {city}.", "How warm is it in {city} now?",
          "I am going to {city}. How is the weather?"),
         {"degrees": list(range(-9, 36)), "sky": WEATHER}, "It is {degrees} degrees and {sky} in {city}."),
    Tool(("set_timer", "start_timer", "timer"), ("Start a timer.", "Set a timer for some minutes."),
         {"minutes": (("minutes", "duration", "length"), "integer", list(range(1, 91)))},
         ("Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes.", "Timer: {minutes} minutes.",
          "Wake me in {minutes} minutes.", "Tell me when {minutes} minutes are over.", "I need a {minutes} minute timer.",
          "Please set a timer for {minutes} minutes.", "Count down {minutes} minutes.", "Remind me in {minutes} minutes.",
          "My cake needs {minutes} minutes."),
         {"status": ["started"]}, "The timer for {minutes} minutes is {status}."),
    Tool(("send_message", "message", "send_text"), ("Send a message to a person.", "Send a short text to somebody."),
         {"to": (("to", "recipient", "person"), "string", NAMES),
          "text": (("text", "body", "message"), "string",
                   ["I am late", "see you soon", "happy birthday", "call me", "dinner is ready", "good luck",
                    "thank you", "the train is full", "I am at home", "where are you", "buy some milk", "well done"])},
         ('Send "{text}" to {to}.', 'Tell {to}: "{text}".', 'Write "{text}" to {to}.', 'Message {to}: "{text}".',
          'Let {to} know: "{text}".', 'Please send {to} the message "{text}".', 'Text {to} "{text}".',
          'Say "{text}" to {to}.', 'Can you write {to} "{text}"?', 'Send {to} a message: "{text}".'),
         {"status": ["sent", "delivered"]}, "Your message to {to} was {status}."),
    Tool(("turn_on_light", "light_on", "switch_light"), ("Turn on the light in a room.", "Switch a light on."),
         {"room": (("room", "where", "location"), "string", ROOMS)},
         ("Turn on the light in the {room}.", "Light in the {room}, please.", "It is dark in the {room}.",
          "Switch on the {room} light.", "Make the {room} bright.", "Can you turn on the {room} light?",
          "I need light in the {room}.", "Put the light on in the {room}.", "Please light up the {room}.",
          "Lights on in the {room}."),
         {"status": ["on"]}, "The light in the {room} is {status}."),
    Tool(("convert_money", "exchange", "convert_currency"), ("Convert money.", "Exchange money from one currency to another."),
         {"amount": (("amount", "value", "sum"), "integer", list(range(2, 1000))),
          "source": (("from", "source", "have"), "string", CURRENCIES[:4]),
          "target": (("to", "target", "want"), "string", CURRENCIES[4:])},
         ("Convert {amount} {source} to {target}.", "How many {target} are {amount} {source}?",
          "What are {amount} {source} in {target}?", "Change {amount} {source} into {target}.",
          "I have {amount} {source} and need {target}.", "Exchange {amount} {source} for {target}.",
          "How much is {amount} {source} in {target}?", "{amount} {source} in {target}, please.",
          "Turn {amount} {source} into {target}.", "Please convert {amount} {source} into {target}."),
         {"result": list(range(2, 1000))}, "{amount} {source} are {result} {target}."),
    Tool(("translate", "translate_word", "lookup_word"), ("Translate a word.", "Translate a word into a language."),
         {"word": (("word", "text", "term"), "string", COMMON_WORDS),
          "language": (("language", "to", "target"), "string", LANGUAGES)},
         ("Translate {word} into {language}.", "What is {word} in {language}?", "How do you say {word} in {language}?",
          "Say {word} in {language}.", "{word} in {language}?", "I need the {language} word for {word}.",
          "What is the {language} word for {word}?", "Give me {word} in {language}.",
          "Can you translate {word} to {language}?", "Look up {word} in {language}."),
         {}, ""),
    Tool(("add_event", "create_event", "calendar_add"), ("Add an event to the calendar.", "Put an event into the calendar."),
         {"title": (("title", "name", "event"), "string",
                    ["lunch", "dinner", "party", "meeting", "concert", "exam", "match", "lesson", "picnic", "wedding"]),
          "day": (("day", "date", "when"), "string", DAYS),
          "hour": (("hour", "time", "start"), "integer", HOURS)},
         ("Add {title} on {day} at {hour}.", "Put {title} into my calendar on {day} at {hour}.",
          "I have a {title} on {day} at {hour}.", "Plan {title} for {day} at {hour}.", "{title} on {day} at {hour}.",
          "Schedule {title} for {day}, {hour} o'clock.", "Save the date: {title}, {day} at {hour}.",
          "Please add a {title} on {day} at {hour}.", "There is a {title} on {day} at {hour}.",
          "Create an event: {title}, {day}, {hour}."),
         {"status": ["added", "saved"]}, "The {title} on {day} at {hour} is {status}."),
    Tool(("play_music", "play", "start_music"), ("Play music.", "Play some kind of music."),
         {"genre": (("genre", "kind", "style"), "string",
                    ["jazz", "rock", "pop", "folk", "blues", "classical", "dance", "piano", "guitar"])},
         ("Play {genre} music.", "Play some {genre}.", "I want to hear {genre}.", "Put on {genre} music.",
          "Start {genre} music, please.", "Some {genre}, please.", "Can you play {genre}?", "I feel like {genre} music.",
          "Let me listen to {genre}.", "Music: {genre}."),
         {"status": ["playing"]}, "Now {status} {genre}."),
    Tool(("find_recipe", "search_recipes", "recipe"), ("Find a recipe.", "Search a recipe with an ingredient."),
         {"ingredient": (("ingredient", "food", "item"), "string", FOODS)},
         ("Find a recipe with {ingredient}.", "What can I cook with {ingredient}?", "I have {ingredient}. What can I make?",
          "Give me a recipe with {ingredient}.", "How can I use {ingredient}?", "Search recipes for {ingredient}.",
          "Recipe with {ingredient}, please.", "What is good with {ingredient}?", "Show me a {ingredient} recipe.",
          "I want to cook {ingredient}."),
         {"dish": ["soup", "cake", "salad", "stew", "pie", "toast"], "minutes": list(range(10, 91, 5))},
         "You can make a {dish} in {minutes} minutes."),
    Tool(("order_item", "buy", "shop_order"), ("Order things in the shop.", "Buy a number of things."),
         {"item": (("item", "product", "thing"), "string", GOODS),
          "count": (("count", "quantity", "number"), "integer", list(range(2, 50)))},
         ("Order {count} of item {item}.", "Buy {count} times {item}.", "I need {count} pieces of {item}.",
          "Order {item}, {count} pieces.", "Get me {count} pieces of {item}.", "Please buy {item}, quantity {count}.",
          "{count} pieces of {item}, please.", "Put {count} of {item} in my cart.", "I want to buy {item}, {count} pieces.",
          "Can you order {count} pieces of {item}?"),
         {"price": list(range(5, 900))}, "Ordered: {item}, {count} pieces for {price} euros."),
    Tool(("search_web", "search", "web_search"), ("Search the web.", "Find pages in the web."),
         {"query": (("query", "text", "words"), "string", FREE)},
         ("Search the web for {query}.", "Search for {query}.", "Find pages about {query}.", "Look up {query} in the web.",
          "Please search {query}.", "Google {query}.", "What does the web say about {query}?", "Do a search for {query}.",
          "Find {query} online.", "I want to read about {query}."),
         {"pages": list(range(2, 1000))}, "I found {pages} pages about {query}."),
    Tool(("add_note", "write_note", "remember_this"), ("Write a note.", "Keep a note for later."),
         {"note": (("note", "text", "content"), "string", FREE)},
         ("Note: {note}.", "Write down: {note}.", "Make a note: {note}.", "Keep this for later: {note}.",
          "Please note {note}.", "Add a note that says {note}.", "Put {note} on my list.", "Note down {note}.",
          "Save the note {note}.", "New note: {note}."),
         {"status": ["saved", "kept"]}, "Your note is {status}."),
)

OPEN = {"city", "to", "word", "ingredient", "item"}  # parameters that may hold words never seen
NO_TOOL = "None of my tools can do that."


@dataclass(frozen=True)
class Given:
    """A tool as one chat names it."""

    tool: Tool
    name: str
    params: dict[str, str]  # parameter -> its name in this chat
    schema: dict


def given(rng: Random, tool: Tool) -> Given:
    name = rng.choice(tool.names)
    params = {p: rng.choice(names) for p, (names, _, _) in tool.params.items()}
    told = rng.random() < 0.3  # real schemas have descriptions
    properties = {params[p]: {"type": kind} | ({"description": f"The {p}."} if told else {})
                  for p, (_, kind, _) in tool.params.items()}
    required = list(properties)
    if rng.random() < 0.15 and not {"unit", "lang"} & set(properties):
        extra, options = rng.choice((("unit", ["c", "f"]), ("lang", ["en", "de"])))
        properties[extra] = {"type": "string", "enum": options}
    schema = {"type": "function", "function": {
        "name": name, "description": rng.choice(tool.about),
        "parameters": {"type": "object", "properties": properties, "required": required}}}
    return Given(tool, name, params, schema)


def argument(rng: Random, name: str, options: list) -> object:
    if options is FREE:
        return " ".join(value(rng, COMMON_WORDS) for _ in range(rng.randint(1, 4)))
    return value(rng, options) if name in OPEN else rng.choice(options)


def call(rng: Random, chosen: Given) -> tuple[list[str], list, list]:
    """Keys, the question with the call, and the tool's reply with the answer made of it."""
    tool = chosen.tool
    values = {p: argument(rng, p, options) for p, (_, _, options) in tool.params.items()}
    question = rng.choice(tool.asks).format(**values)
    question = casual(rng, question, names=True)
    content = ":".join(str(v) for v in values.values())
    arguments = {chosen.params[p]: v for p, v in values.items()}
    made = {"name": chosen.name, "arguments": arguments}
    text = f"<tool_call>{json.dumps(made)}</tool_call>"
    kind = tool.names[0]
    keys, asked = [f"tool:{kind}:{content}"], [user(question), answer(text)]
    if not tool.result:
        foreign = invented(rng)
        back = [{"role": "tool", "content": json.dumps({"result": foreign})}, answer(f"The word is {foreign}.")]
        return keys + [f"toolreply:{kind}:{foreign}"], asked, back
    result = {f: rng.choice(options) for f, options in tool.result.items()}
    says = tool.says.format(**values, **result)
    back = [{"role": "tool", "content": json.dumps(result)}, answer(says[0].upper() + says[1:])]
    reply = ":".join(str(v) for v in result.values())
    return keys + [f"toolreply:{kind}:{content}:{reply}"], asked, back


def sample(rng: Random, reply: float = 0.35) -> Exchange:
    first, second, other = rng.sample(TOOLS, 3)
    offered = [given(rng, first), given(rng, second)]
    tools = [g.schema for g in offered]
    if rng.random() < 0.08:  # a wish that neither tool grants
        called, asked, _ = call(rng, given(rng, other))
        return Exchange("tools", called[:1], [asked[0], answer(NO_TOOL)], tools)
    keys, messages = [], []
    for _ in range(2 if rng.random() < 0.25 else 1):
        called, asked, back = call(rng, rng.choice(offered))
        keys.append(called[0])
        messages += asked
        if rng.random() < reply:
            keys.append(called[1])
            messages += back
    return Exchange("tools", keys, messages, tools)
