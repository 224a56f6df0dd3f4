"""Word lists that the skills draw from. Written for this project; all lower case unless a name."""

NAMES = """Ada Adam Alma Amir Anna Aya Ben Bela Carl Cara Chen Clara Dana David Dora Eli Ella Emil Emma Erik Eva Felix
Fiona Frida George Greta Hana Hugo Ida Igor Ines Ivan Jack Jana Jonas Julia Kai Karim Kim Lara Lena Leo Lily Lina Luca
Lucy Maja Marco Maria Mark Maya Mia Milo Mina Nadia Nico Nina Noah Nora Olaf Olga Omar Oscar Paul Petra Pia Rosa Ruth
Sam Sara Simon Sofia Tara Theo Tim Tom Uma Vera Viktor Wanda Yara Yuki Zoe""".split()

LAST_NAMES = "Smith Brown Miller Novak Rossi Silva Meyer Jensen Kowalski Tanaka Lopez Martin Green Weber Berg".split()

CITIES = """Athens Berlin Bern Boston Brno Cairo Chicago Cork Dakar Delhi Denver Dublin Geneva Ghent Graz Hanoi Helsinki
Kyoto Lagos Leeds Lima Lisbon London Lyon Madrid Malmo Milan Munich Nairobi Naples Oslo Ottawa Paris Porto Prague Quito
Riga Rome Seoul Sofia Tokyo Turin Vienna Warsaw York Zurich""".split()

JOBS = """baker doctor teacher pilot farmer nurse painter driver cook tailor lawyer singer dancer writer gardener carpenter
plumber engineer dentist judge librarian florist butcher sailor mechanic""".split()

COLORS = "red blue green yellow white black brown orange purple pink gray golden silver".split()

ANIMALS = """fox bear rabbit owl mouse cat dog horse duck goat sheep frog turtle lion tiger wolf deer hen crow swan otter
beaver badger hedgehog squirrel donkey camel panda koala penguin parrot monkey whale dolphin seal
dragon robot giraffe snake spider mole bat pig cow kitten puppy dinosaur elephant""".split()

FOODS = """apple banana cherry grape lemon melon orange peach pear plum bread butter cheese honey rice soup pasta salad egg
potato tomato carrot onion pepper garlic bean corn mushroom pumpkin spinach cake cookie pancake waffle yogurt""".split()

THINGS = """key lamp map bell book box button candle chair clock coin cup drum feather flute hat kite ladder lantern mirror
needle pencil pillow ring rope scarf shell shoe spoon stone sword ticket tent towel umbrella violin watch whistle wheel
basket blanket bottle bucket brush crown jar kettle letter""".split()

PLACES = """forest garden river lake village market castle bridge mountain meadow beach cave mill tower farm island library
kitchen school park harbor valley barn attic orchard station theater museum bakery workshop""".split()

ROOMS = "kitchen bedroom bathroom hall office garage cellar attic balcony library".split()

HOBBIES = "chess tennis football painting singing dancing reading cooking fishing sailing hiking skating swimming running".split()

GOODS = "shirt hat scarf jacket chair lamp table cup plate bag clock mirror pillow blanket bottle book pen mug towel vase".split()

FEELINGS = "happy proud tired brave sad calm curious hungry sleepy surprised grateful cheerful".split()

TRAITS = "little brave shy clever kind old young curious gentle lazy quick quiet funny wise tiny".split()

LANGUAGES = "French German Spanish Italian Polish Dutch Czech Swedish Greek Turkish Danish Finnish".split()

CURRENCIES = "dollars euros pounds francs crowns yen pesos rupees".split()

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

MONTHS = "January February March April May June July August September October November December".split()

OTHER_WORDS = """able about above action actor after again age air almost alone along also always among anger angle animal
answer arm army art aunt autumn away baby back ball band bank bar base bath battle bed bee begin behind below belt bench
best better big bird birth bit black blood blow blue board boat body bone border born both bottom bowl boy branch brave
break breath brick bridge bright bring broken brother build burn bus busy cabin calm camera camp candy captain car card
care carry case castle catch cause cell center chain chalk chance change cheap check chest chicken child chin choice
circle city class clean clear climb cloth cloud coach coal coast coat cold color comb come copy corner cost cotton cough
count country couple course cousin cover cow crack cream crime cross crowd cry culture curtain curve dad damage dance
danger dark date daughter day dead dear death deep desert desk detail dinner dirt dish doctor dollar door double down
draw dream dress drink drive drop dry dust eagle ear early earth east easy eat edge effect eight elbow electric empty
end energy engine enjoy enough enter equal even evening event ever every exam example eye face fact fair fall false
family famous fan far fast fat father fear feed feel fence fever few field fight fill film final find fine finger finish
fire first fish five fix flag flame flat flight float floor flour flower fly fog fold follow food foot force forest
forget fork form forward four frame free fresh friend front frost fruit full fun funny game gas gate gentle gift girl
give glad glass glove go goal gold good grain grand grass great ground group grow guest guide gun hair half hammer hand
handle happen happy hard harvest head health heart heat heavy heel height hello help hero hide high hill history hobby
hold hole holiday home hope hospital hot hotel hour house human hundred hunt hurry ice idea ill inch ink insect inside
iron jacket job join joke joy juice jump just keep kick kid kind king kiss knee knife knock knot know lady land language
large last late laugh law lazy lead leaf learn left leg lesson level lift light like line lip list listen little live
lock log long look lose loud love low luck lunch machine magic mail main make man many mark market master match math
meal mean measure meat medicine meet melt member memory metal middle milk million mind minute miss mix model modern
moment money month moon morning most mother motor mouth move movie much mud muscle music nail name narrow nation nature
near neck need neighbor nerve nest net never new news next nice night nine noise noon north nose note nothing notice
number nurse ocean offer office often oil old once one only open orange order other outside oven over own page pain
paint pair palace paper parent part party pass past path pay peace pen people person phone photo piano picture piece pig
pin pink pipe place plain plan plane planet plant plastic plate play please plenty pocket poem point poison police
polite pond pool poor port post pot powder power present press pretty price print prison prize problem promise proud
public pull pump purple push queen question quick quiet quite race radio rail rain raise reach read ready real reason
record red remember rent reply rest result return rice rich ride right ring rise road rock roof room root rose rough
round row rubber rule run rush sad safe sail salt same sand save say scale science sea search season seat second secret
see seed seem sell send sense serve seven shade shadow shake shape share sharp shelf shine ship shirt shop short
shoulder shout show sick side sign silence silk silver simple sing sister sit six size skill skin skirt sky sleep slip
slow small smart smell smile smoke smooth snake snow soap sock soft soil soldier song soon sort sound south space speak
special speed spell spend sport spot spread spring square stage stairs stamp stand star start state stay steam steel
step stick still stomach stop store storm story strange street strong student study sugar summer sun sunny supper sure
surface sweet swim table tail take talk tall taste taxi tea teach team tear teeth ten tennis test thank thick thin thing
think third thousand thread three throat throw thumb thunder time tiny tired title today toe together tomorrow tongue
tooth top total touch tough tour town toy track trade train travel tree trip trouble truck true trust truth try turn
twelve twenty twice two uncle under until use usual valley value van very view village visit voice wait walk wall want
war warm wash waste water wave way weak wear weather wedding week weight well west wet wheat white whole wide wife wild
win wind window wine wing winter wire wise wish woman wonder wood wool word work world worm worry write wrong yard
year millrace browser computer program website mango pizza keyboard banana
yellow yes yesterday young zebra zero""".split()

# Words for the letters and sorting skills: (word list), 3 to 10 letters, no duplicates, fixed order.
COMMON_WORDS = sorted(
    {w for w in ANIMALS + FOODS + THINGS + PLACES + COLORS + JOBS + HOBBIES + OTHER_WORDS if 3 <= len(w) <= 10}
)
