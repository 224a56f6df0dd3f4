"""The text that the small tokenizers are trained on: several scripts, code and numbers, enough for a few hundred merges."""

LINES = [
    "The mill stands by the river, and the water that runs past it turns the wheel.",
    "A mill race is the channel that carries water to the wheel and away from it.",
    "What is the weather like today? It is raining in the north and dry in the south.",
    "She said that they would meet at the station, but the train was late again.",
    "There is nothing in the world that I would rather do than read the other half of the book.",
    "I don't think we've seen them; they're late, he's here, she'd know, I'll wait, I'm sure you can't.",
    "The answer is 42, the question was 17 + 25, and 1234567890 is a number with ten digits.",
    "In 1999 there were 365 days, 12 months and 52 weeks; in 2024 there were 366 days.",
    "for (let i = 0; i < 10; i++) { console.log(`value ${i}`); }",
    "fn main() { let values: Vec<u32> = (0..10).map(|i| i * i).collect(); println!(\"{values:?}\"); }",
    "def hello(name: str) -> str:\n    return f\"Hello, {name}!\"\n\nprint(hello(\"world\"))\n",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"unit\": \"celsius\"}}",
    "if (x == y && y != z || !w) { return x->next; } else { x += 1; }",
    "Le moulin est près de la rivière, et l'eau qui coule fait tourner la roue. Où est-il déjà passé ?",
    "Die Mühle steht am Fluss, und das Wasser treibt das große Rad. Schöne Grüße aus Köln!",
    "El molino está junto al río; ¿dónde está la señora que vive en él? ¡Mañana será otro día!",
    "O moinho fica à beira do rio, e a água move a roda. Não há pão sem farinha.",
    "Мельница стоит у реки, и вода вращает колесо. Что такое хорошо и что такое плохо?",
    "Ο μύλος είναι δίπλα στο ποτάμι και το νερό γυρίζει τον τροχό.",
    "水车在河边，水推动轮子。今天天气怎么样？",
    "水車は川のそばにあり、水が車輪を回します。今日はいい天気ですね。",
    "물레방아는 강가에 있고 물이 바퀴를 돌린다. 오늘 날씨가 어때요?",
    "الطاحونة بجانب النهر والماء يدير العجلة.",
    "הטחנה עומדת ליד הנהר והמים מסובבים את הגלגל.",
    "चक्की नदी के किनारे है और पानी पहिये को घुमाता है।",
    "โรงสีอยู่ริมแม่น้ำ และน้ำหมุนกังหัน",
    "    indented by four\n\tindented by a tab\n\n\nthree line ends above\n",
    "🙂 👍🏽 🚀 ❤️ 👩‍👩‍👧 🇫🇷",
]

# Repeated, so that the most frequent pairs are the ones of ordinary English.
CORPUS = [line for index, line in enumerate(LINES) for _ in range(4 if index < 8 else 2)]
