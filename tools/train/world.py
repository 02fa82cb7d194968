"""A small world of facts: calendar, letters, opposites, colours, animals, capitals, units, a few words of other languages."""
from grammar import Turn, pick, say

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
SEASONS = "spring summer autumn winter".split()
ABC = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

OPPOSITES = """hot cold|big small|tall short|fast slow|up down|left right|day night|light dark|good bad|happy sad|young old|new old|open closed|
full empty|hard soft|loud quiet|rich poor|strong weak|wet dry|clean dirty|near far|high low|early late|easy difficult|first last|true false|
love hate|begin end|win lose|buy sell|push pull|in out|yes no|black white|thick thin|wide narrow|deep shallow|heavy light|sweet sour|inside outside|
front back|top bottom|always never|before after|above below|alive dead|brave afraid|cheap expensive|smooth rough|sharp blunt|asleep awake|
right wrong|same different|more less|many few|long short|give take|come go|start stop|remember forget|friend enemy|north south|east west|
laugh cry|beautiful ugly|kind cruel|safe dangerous|simple complicated|increase decrease|arrive leave|cool warm|lost found|on off|
summer winter|sunrise sunset|question answer|import export|online offline|input output|read write|lock unlock|compress decompress""".replace("\n", "").split("|")
OPPOSITE = {}
for pair in OPPOSITES:
    one, other = pair.split()
    OPPOSITE.setdefault(one, other)
    OPPOSITE.setdefault(other, one)

COLOURS = {"the sky": "blue", "grass": "green", "snow": "white", "coal": "black", "blood": "red", "a banana": "yellow",
    "a lemon": "yellow", "the sun": "yellow",
           "a tomato": "red", "a carrot": "orange", "an orange": "orange", "a strawberry": "red", "milk": "white",
           "chocolate": "brown", "the sea": "blue",
           "an elephant": "grey", "a polar bear": "white", "a flamingo": "pink", "a frog": "green", "a fire truck": "red",
           "the night sky": "black",
           "a cucumber": "green", "a plum": "purple", "a ripe cherry": "red", "a crow": "black", "a pea": "green",
           "honey": "golden", "a pig": "pink",
           "wood": "brown", "a leaf": "green", "a swan": "white", "sand": "yellow", "salt": "white", "coffee": "brown",
           "a violet": "purple", "ice": "white",
           "a stop sign": "red", "an emerald": "green", "a ruby": "red", "a sapphire": "blue", "a mouse": "grey",
           "an aubergine": "purple", "a pumpkin": "orange"}
MIXES = [("blue", "yellow", "green"), ("red", "yellow", "orange"), ("red", "blue", "purple"), ("red", "white", "pink"), ("black",
    "white", "grey")]
SOUNDS = {"cow": "moo", "dog": "woof", "cat": "meow", "duck": "quack", "sheep": "baa", "pig": "oink", "horse": "neigh",
    "lion": "roar", "bee": "buzz",
          "frog": "ribbit", "owl": "hoot", "mouse": "squeak", "rooster": "cock-a-doodle-doo", "snake": "hiss", "donkey": "hee-haw",
          "crow": "caw",
          "chicken": "cluck", "bird": "tweet", "goat": "bleat", "wolf": "howl"}
LEGS = {"spider": 8, "dog": 4, "cat": 4, "bird": 2, "chicken": 2, "ant": 6, "bee": 6, "horse": 4, "cow": 4, "fish": 0, "snake": 0,
    "human": 2, "person": 2,
        "octopus": 8, "beetle": 6, "elephant": 4, "duck": 2, "fly": 6, "butterfly": 6, "sheep": 4, "pig": 4, "lion": 4, "frog": 4,
        "table": 4, "chair": 4,
        "crab": 10, "mouse": 4, "penguin": 2, "worm": 0, "goat": 4}
YOUNG = {"dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "pig": "piglet", "duck": "duckling",
    "lion": "cub", "bear": "cub",
         "chicken": "chick", "frog": "tadpole", "goat": "kid", "deer": "fawn", "goose": "gosling", "swan": "cygnet",
         "kangaroo": "joey", "owl": "owlet"}
HOMES = {"bird": "a nest", "bee": "a hive", "dog": "a kennel", "horse": "a stable", "fish": "water", "spider": "a web",
    "rabbit": "a burrow", "fox": "a den",
         "bear": "a cave or den", "ant": "an ant hill", "polar bear": "the Arctic", "penguin": "the Antarctic, for the most part",
         "camel": "the desert",
         "monkey": "the forest", "whale": "the sea", "shark": "the sea", "lion": "the savanna", "frog": "ponds and wet places"}
EATS = {"cow": "grass", "rabbit": "grass and carrots", "panda": "bamboo", "lion": "meat", "horse": "grass and hay", "bee": "nectar",
    "cat": "meat and fish",
        "squirrel": "nuts", "monkey": "fruit", "sheep": "grass", "frog": "insects", "spider": "insects",
        "koala": "eucalyptus leaves", "owl": "mice",
        "penguin": "fish", "dog": "meat and dog food", "mouse": "grain and seeds", "giraffe": "leaves"}
PLURALS = {"mouse": "mice", "child": "children", "foot": "feet", "tooth": "teeth", "man": "men", "woman": "women", "goose": "geese",
    "sheep": "sheep",
           "fish": "fish", "leaf": "leaves", "knife": "knives", "box": "boxes", "city": "cities", "baby": "babies", "cat": "cats",
           "dog": "dogs", "book": "books",
           "house": "houses", "wolf": "wolves", "ox": "oxen", "person": "people", "bus": "buses", "cherry": "cherries",
           "potato": "potatoes", "hero": "heroes",
           "half": "halves", "life": "lives", "wish": "wishes", "story": "stories", "index": "indices", "matrix": "matrices"}
PASTS = {"go": "went", "eat": "ate", "run": "ran", "see": "saw", "take": "took", "give": "gave", "write": "wrote", "read": "read",
    "sing": "sang", "swim": "swam",
         "come": "came", "buy": "bought", "think": "thought", "bring": "brought", "make": "made", "find": "found", "know": "knew",
         "fly": "flew", "drink": "drank",
         "sleep": "slept", "speak": "spoke", "break": "broke", "is": "was", "have": "had", "do": "did", "say": "said", "get": "got",
         "begin": "began",
         "walk": "walked", "play": "played", "jump": "jumped", "build": "built", "send": "sent", "load": "loaded",
         "choose": "chose"}
CAPITALS = {"France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon", "Austria": "Vienna",
    "Poland": "Warsaw",
            "Greece": "Athens", "Sweden": "Stockholm", "Norway": "Oslo", "Denmark": "Copenhagen", "Finland": "Helsinki",
            "Ireland": "Dublin",
            "England": "London", "the United Kingdom": "London", "the UK": "London", "Japan": "Tokyo", "China": "Beijing",
            "India": "New Delhi", "Russia": "Moscow",
            "Egypt": "Cairo", "Canada": "Ottawa", "the United States": "Washington, D.C.", "the USA": "Washington, D.C.",
            "Mexico": "Mexico City",
            "Brazil": "Brasilia", "Argentina": "Buenos Aires", "Australia": "Canberra", "Turkey": "Ankara", "Hungary": "Budapest",
            "Belgium": "Brussels",
            "the Netherlands": "Amsterdam", "Switzerland": "Bern", "the Czech Republic": "Prague", "South Korea": "Seoul",
            "Kenya": "Nairobi", "Cuba": "Havana",
            "Romania": "Bucharest", "Croatia": "Zagreb", "Slovenia": "Ljubljana", "Iceland": "Reykjavik", "Ukraine": "Kyiv",
            "Scotland": "Edinburgh", "Peru": "Lima"}
TONGUES = {"Spanish": {"hello": "hola", "thank you": "gracias", "yes": "si", "no": "no", "goodbye": "adios", "cat": "gato",
    "dog": "perro", "water": "agua",
                       "house": "casa", "sun": "sol", "moon": "luna", "friend": "amigo", "bread": "pan", "book": "libro",
                       "good morning": "buenos dias", "red": "rojo"},
           "French": {"hello": "bonjour", "thank you": "merci", "yes": "oui", "no": "non", "goodbye": "au revoir", "cat": "chat",
           "dog": "chien", "water": "eau",
                      "house": "maison", "sun": "soleil", "moon": "lune", "friend": "ami", "bread": "pain", "book": "livre",
                      "good morning": "bonjour", "red": "rouge"},
           "German": {"hello": "hallo", "thank you": "danke", "yes": "ja", "no": "nein", "goodbye": "auf Wiedersehen",
           "cat": "Katze", "dog": "Hund", "water": "Wasser",
                      "house": "Haus", "sun": "Sonne", "moon": "Mond", "friend": "Freund", "bread": "Brot", "book": "Buch",
                      "good morning": "guten Morgen", "red": "rot"},
           "Italian": {"hello": "ciao", "thank you": "grazie", "yes": "si", "no": "no", "goodbye": "arrivederci", "cat": "gatto",
           "dog": "cane", "water": "acqua",
                       "house": "casa", "sun": "sole", "moon": "luna", "friend": "amico", "bread": "pane", "book": "libro",
                       "good morning": "buongiorno", "red": "rosso"}}
SPELLED = """cat dog house water apple river stone green yellow memory model window garden summer winter friend robot server computer planet table chair
morning evening music island forest mountain bread cheese orange purple silver golden planet rocket dragon castle bridge pencil letter number answer question
happy little story ocean button pocket kitten puppy turtle rabbit monkey tiger banana cherry lemon coffee school market street doctor teacher""".split()
FACTS = [  # (questions, answer)
    (["How many days are {in|there in} a week?", "how many days does a week have", "days in a week",
    "{number|count} of days in a week"], "A week has 7 days."),
    (["How many months are {in|there in} a year?", "how many months does a year have", "months in a year"],
    "A year has 12 months."),
    (["How many days are {in|there in} a year?", "how many days does a year have", "days in a year"],
    "A year has 365 days, and a leap year has 366."),
    (["How many weeks are {in|there in} a year?", "how many weeks does a year have", "weeks in a year"],
    "A year has 52 weeks and a day."),
    (["How many hours are {in|there in} a day?", "how many hours does a day have", "hours in a day"], "A day has 24 hours."),
    (["How many minutes are {in|there in} an hour?", "how many minutes does an hour have", "minutes in an hour"],
    "An hour has 60 minutes."),
    (["How many seconds are {in|there in} a minute?", "how many seconds does a minute have", "seconds in a minute"],
    "A minute has 60 seconds."),
    (["How many seconds are {in|there in} an hour?", "seconds in an hour"], "An hour has 3600 seconds."),
    (["How many years are in a {century|hundred years}?", "how long is a century"], "A century has 100 years."),
    (["How many years are in a decade?", "how long is a decade"], "A decade has 10 years."),
    (["How many letters {are in|are there in|does} the {English |}alphabet{ have|}?", "letters in the alphabet",
    "how many letters in the alphabet"], "The English alphabet has 26 letters."),
    (["What are the vowels?", "{List|Name|Tell me} the vowels{.|}", "which letters are vowels", "vowels?"],
    "The vowels are A, E, I, O and U."),
    (["{Say|Recite|Write|List|Tell me|What is} the alphabet{.|}", "{abc|ABC}", "the whole alphabet please",
    "can you say the alphabet?"], "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z."),
    (["{List|Name|What are|Tell me} the days of the week{.|}", "days of the week", "Which days does a week have?"],
    "The days are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday."),
    (["{List|Name|What are|Tell me} the months{ of the year|}{.|}", "months of the year", "all the months"],
    "The months are January, February, March, April, May, June, July, August, September, October, November and December."),
    (["{List|Name|What are|Tell me} the {four |}seasons{.|}", "How many seasons are there?", "seasons of the year"],
    "The four seasons are spring, summer, autumn and winter."),
    (["What is a leap year?", "how long is a leap year", "what does leap year mean"],
    "A leap year has 366 days: February gets a 29th day, every four years as a rule."),
    (["{What are|Name|List} the primary colours?", "primary colors"], "The primary colours of paint are red, yellow and blue."),
    (["What colours are in {a|the} rainbow?", "{colours|colors} of the rainbow", "name the colors of the rainbow"],
    "A rainbow shows red, orange, yellow, green, blue, indigo and violet."),
    (["How many legs do two dogs have?", "legs of two dogs"], "Two dogs have 8 legs."),
    (["How many wheels does a {car|truck} have?", "wheels on a car"], "A car has 4 wheels."),
    (["How many wheels does a {bicycle|bike} have?", "wheels on a bike"], "A bicycle has 2 wheels."),
    (["How many sides does a triangle have?", "sides of a triangle", "how many corners does a triangle have"],
    "A triangle has 3 sides."),
    (["How many sides does a square have?", "sides of a square", "how many corners does a square have"],
    "A square has 4 sides, all of the same length."),
    (["How many sides does a hexagon have?", "sides of a hexagon"], "A hexagon has 6 sides."),
    (["How many sides does a pentagon have?", "sides of a pentagon"], "A pentagon has 5 sides."),
    (["How many fingers {does a hand|do I|does a person} have?", "how many fingers on a hand"],
    "A hand has 5 fingers, so two hands have 10."),
    (["How many is a dozen?", "what is a dozen", "how much is a dozen", "how many eggs are in a dozen"], "A dozen is 12."),
    (["How many planets are {there|in the solar system}?", "number of planets", "how many planets does the sun have"],
    "There are 8 planets around the sun."),
    (["{Which|What} planet do we live on?", "what planet are we on", "name of our planet"], "We live on the planet Earth."),
    (["{Which|What} is the {largest|biggest} planet?", "biggest planet in the solar system"],
    "Jupiter is the largest planet around the sun."),
    (["{Which|What} planet is {closest|nearest} to the sun?", "closest planet to the sun"],
    "Mercury is the planet closest to the sun."),
    (["{Name|List|What are} the planets{ of the solar system|}{.|}", "all planets in order"],
    "The planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune."),
    (["What is the sun?", "is the sun a star", "what kind of thing is the sun"],
    "The sun is a star. It gives us light and warmth."),
    (["What is the moon?", "what does the moon do", "tell me about the moon"],
    "The moon goes around the Earth, once in about a month, and shines with the light of the sun."),
    (["At what temperature does water {freeze|turn to ice}?", "when does water freeze", "freezing point of water"],
    "Water freezes at 0 degrees Celsius."),
    (["At what temperature does water boil?", "when does water boil", "boiling point of water"],
    "Water boils at 100 degrees Celsius."),
    (["What is ice?", "what is ice made of", "what is frozen water called"], "Ice is frozen water."),
    (["What is water{ made of|}?", "what is h2o", "formula of water"], "Water is H2O: two parts hydrogen and one part oxygen."),
    (["{Which|What} is the {largest|biggest} ocean?", "biggest ocean in the world"], "The Pacific is the largest ocean."),
    (["{Which|What} is the {tallest|highest} mountain?", "highest mountain in the world", "highest mountain on earth"],
    "Mount Everest is the highest mountain on Earth."),
    (["How many continents are there?", "number of continents", "list the continents"],
    "There are 7 continents: Africa, Antarctica, Asia, Australia, Europe, North America and South America."),
    (["{Which|What} is the {largest|biggest} animal?", "biggest animal in the world", "what animal is the largest"],
    "The blue whale is the largest animal."),
    (["{Which|What} is the {fastest|quickest} animal{ on land|}?", "fastest land animal"],
    "The cheetah is the fastest animal on land."),
    (["{Which|What} is the tallest animal?", "tallest animal in the world"], "The giraffe is the tallest animal."),
    (["What do bees make?", "who makes honey", "where does honey come from"], "Bees make honey."),
    (["Where does milk come from?", "who gives us milk", "which animal gives milk"], "Milk comes from cows, for the most part."),
    (["Where does the sun rise?", "where does the sun come up", "in which direction does the sun rise"],
    "The sun rises in the east."),
    (["Where does the sun set?", "where does the sun go down", "in which direction does the sun set"], "The sun sets in the west."),
    (["What is the meaning of life?", "meaning of life", "what's the answer to life, the universe and everything",
    "why are we here"], "Some say 42. I am too small to know better."),
    (["{Which came|What came} first, the chicken or the egg?", "chicken or egg"],
    "I am a tiny model and stay out of that one. Both are nice with toast."),
    (["Is the earth {round|flat}?", "what shape is the earth", "shape of the earth"], "The Earth is round, like a ball."),
    (["Why is the sky blue?", "why's the sky blue", "what makes the sky blue", "how come the sky is blue"],
    "Air scatters blue light more than red light, so the sky looks blue."),
    (["What is rain?", "where does rain come from", "why does it rain"],
    "Rain is water that falls from clouds: water goes up as vapour, cools, and comes down in drops."),
    (["What is snow?", "what is snow made of", "why does it snow"],
    "Snow is frozen water that falls from clouds as small crystals of ice."),
    (["What is a rainbow?", "how is a rainbow made", "why is there a rainbow"],
    "A rainbow is sunlight that raindrops have split into its colours."),
    (["What is fire?", "why is fire hot", "how does fire work"],
    "Fire is fuel that burns with oxygen and gives off heat and light."),
    (["What is a computer?", "what does a computer do", "explain computers"],
    "A computer is a machine that follows instructions, very fast, to work with numbers, text and pictures."),
    (["What is the internet?", "explain the internet", "how does the internet work"],
    "The internet is a network that connects computers all over the world, so that they can send data to each other."),
    (["What is a program?", "what is software", "explain what a program is"],
    "A program is a list of instructions that tell a computer what to do."),
    (["What is a robot?", "explain what a robot is", "what do robots do"],
    "A robot is a machine that can do work by itself, following a program."),
    (["What is a triangle?", "define triangle"], "A triangle is a shape with 3 sides and 3 corners."),
    (["What is pi?", "value of pi", "how much is pi", "what's the number pi"],
    "Pi is about 3.14: a circle's way around, divided by its width."),
    (["What is an even number?", "what does even mean", "when is a number even"],
    "An even number can be divided by 2 without a rest: 2, 4, 6, 8 and so on."),
    (["How many weeks are {in|there in} a month?", "weeks in a month", "how many weeks does a month have"],
    "A month has a little more than 4 weeks."),
    (["How many days are {in|there in} a month?", "days in a month", "how long is a month"],
    "A month has 30 or 31 days, and February 28 or 29."),
    (["How many {r's|rs|r} are in strawberry?", "count the r's in strawberry", "how many times does r occur in strawberry",
    "how many letters r are in the word strawberry"], "There are 3 r's in strawberry."),
    (["What is heavier, a {kilo|kilogram|pound} of {feathers|cotton} or a {kilo|kilogram|pound} of {iron|steel|lead|stones}?",
    "a kilo of feathers or a kilo of iron, which is heavier?"], "They weigh the same: a kilo is a kilo."),
    (["What is a llama?", "do you know what a llama is", "are you a llama", "tell me about llamas"],
    "A llama is a woolly animal from South America. It is also the name of a family of language models."),
    (["What is an octopus?", "what do you know about octopuses"],
    "An octopus is a clever sea animal with eight arms and three hearts."),
    (["What is a cat?", "what are cats"], "A cat is a small furry animal that says meow and likes to sleep."),
    (["What is a dog?", "what are dogs"], "A dog is a friendly animal that says woof and likes to play."),
    (["What is an elephant?", "what are elephants"], "An elephant is a very large grey animal with a trunk."),
    (["What is a tree?", "what are trees"], "A tree is a tall plant with a trunk of wood, branches and leaves."),
    (["What is the sea?", "what is an ocean"], "The sea is the salt water that covers most of the Earth."),
    (["What is a star?", "what are stars"], "A star is a huge ball of hot gas that shines. The sun is one."),
    (["What is a planet?", "what are planets"], "A planet is a large round body that goes around a star. The Earth is one."),
    (["What is a number?", "what are numbers"], "A number says how many there are of something, such as 1, 2 or 3."),
    (["What is a word?", "what is a sentence"],
    "A word is a piece of language with a meaning, and words together make a sentence."),
    (["What is Python?", "what is the python language", "what's python", "tell me about Python"],
    "Python is a popular programming language that is easy to read."),
    (["What is C?", "what is the C language", "what's the C programming language"],
    "C is a programming language that is close to the machine and fast. vram-llm is written in it."),
    (["What is Linux?", "what's linux", "tell me about linux"], "Linux is a free operating system. vram-llm runs on it."),
    (["What is JSON?", "what's json"],
    "JSON is a simple text format for data, with names, numbers, lists and text. The API speaks it."),
    (["What is HTTP?", "what's http"], "HTTP is the language in which browsers and programs talk to servers such as vram-llm."),
    (["What is a server?", "what's a server", "what does a server do"],
    "A server is a program that waits for requests and answers them. vram-llm is one."),
    (["What is AI?", "what is artificial intelligence", "what's ai", "what does AI mean"],
    "AI is short for artificial intelligence: programs that do things for which people need their heads, such as talking."),
    (["What is machine learning?", "what's machine learning", "explain machine learning{ to me|}{ like I'm five|}",
    "how do machines learn"],
    "In machine learning a program is not told the rules: it finds them by itself in many examples. I learned from generated chats."),
    (["What is a neural network?", "what's a neural network", "explain neural networks"],
    "A neural network is a large formula with many numbers, the weights, that are adjusted until its answers fit the examples."),
    (["What is an odd number?", "what does odd mean", "when is a number odd"],
    "An odd number leaves a rest of 1 when divided by 2: 1, 3, 5, 7 and so on."),
]


def fact(r, ctx):
    questions, answer = pick(r, FACTS)
    return [Turn(say(r, questions), answer, "facts")]


RARE = """generous patient curious proud honest famous modern public liquid solid noisy gentle bitter wise foolish shiny humble eager lucky serious formal urban polite jealous elegant fragile fierce frozen guilty hollow innocent loyal mature mighty narrow-minded obvious
optimistic passive permanent precious private rapid rare rural scarce selfish sincere steep stubborn superb talented tender timid tiny transparent vague vain vast vivid weird zealous abstract accurate ancient annual arrogant basic brilliant casual civil clumsy concrete""".split()
RARE_THINGS = """octopus cactus syllabus crisis radius giraffe umbrella keyboard violin volcano engine battery bottle candle carpet ceiling diamond feather hammer helmet ladder magnet napkin oyster parcel pebble pillow pistol pocket puzzle quilt razor ribbon saddle shovel sponge statue
tractor trumpet turnip walnut whistle zipper bridge cousin lawyer farmer soldier tailor thumb elbow""".split()


def outside(r, ctx):
    """Questions of a known form about something that is not in the tables."""
    from talk import DUNNO, PLACES, made_up
    w = made_up(r, 2) if r.random() < 0.4 else pick(r, RARE)
    t = made_up(r, 2) if r.random() < 0.4 else pick(r, RARE_THINGS)
    p = made_up(r, 2).capitalize() if r.random() < 0.4 else pick(r, PLACES)
    user = say(r, ["{What is|What's|Whats} the opposite of <w>?", "opposite of <w>", "antonym of <w>", "and of <w>?",
        "{What is|What's} the plural of <t>?", "plural of <t>", "What colour is a <t>?", "what color is the <t>",
        "What sound does a <t> make?", "how many legs does a <t> have?", "what does a <t> eat?", "where does a <t> live",
                   "{What is|What's} the past tense of <w>?", "past tense of <t>", "what is a baby <t> called?",
                   "{What is|What's|whats} the capital of <p>?", "capital of <p>", "What is <t>?", "what is a <t>?",
                   "what is a <t> for?", "what's the difference between a <t> and a <u>?",
                   "how do you say <t> in {Spanish|French|German|Italian}?", "translate <t> to {French|Spanish}",
                   "{reverse|shuffle|scramble} the word <t>", "how many letters does <t> have?", "how many letters are in <t>",
                   "what rhymes with <t>?", "write <t> backwards", "find an anagram of <t>", "is <t> a palindrome?",
                   "what is the first vowel of <t>", "how many vowels are in <t>", "how many syllables does <t> have",
                   "use <w> in a sentence", "a synonym of <w>",
                   "what is the best <t>?", "what is the best model for <t>",
                   "which model is best{ for coding| for german| for chat|}?", "how many <t>s are there?",
                   "convert <n> <t>s to <u>s", "<n> <t>s in <u>s", "how many <t>s are in <n> <u>s",
                   "convert <n> {dollars|miles|pounds|inches|feet|celsius|euros|yen|acres|knots} to {euros|km|kg|cm|metres|fahrenheit|dollars|hectares}",
                   "<n> {miles|pounds|inches|feet|degrees|dollars} in {km|kg|cm|m|fahrenheit|euros}"], w=w, t=t, p=p, u=pick(r,
                   RARE_THINGS), n=1 + int(r.random() * 50))
    return [Turn(user, DUNNO, "unknown", must=("I don't know that",), exact=True)]


def herd(r, ctx):
    a = pick(r, "dog cat spider ant bee horse cow bird duck elephant sheep pig lion frog beetle chicken".split())
    n = 2 + int(r.random() * 9)
    many = a if a == "sheep" else a + "s"
    return [Turn(say(r, ["How many legs do <n> <m> have?", "legs of <n> <m>", "how many legs have <n> <m>",
        "number of legs of <n> <m>", "I have <n> <m>. How many legs is that?"], n=pick(r, [n, n,
        "zero one two three four five six seven eight nine ten".split()[n]]), m=many),
                 f"{n} x {LEGS[a]} = {n * LEGS[a]}. {n} {many} have {n * LEGS[a]} legs.", "animals", must=(f"= {n * LEGS[a]}.",),
                 exact=True)]


def calendar(r, ctx):
    if r.random() < 0.5:
        i = int(r.random() * 7)
        how = int(r.random() * 4)
        if how == 0:
            turns = [Turn(say(r, ["{What|Which} day {comes|is} {after|next after} <d>?", "What comes after <d>?", "day after <d>",
                "the day after <d> is", "What day follows <d>?",
                                  "If today is <d>, what {day is it |is |day is }tomorrow?", "today is <d>. what is tomorrow?"],
                                  d=DAYS[i]),
                          f"After {DAYS[i]} comes {DAYS[(i + 1) % 7]}.", "calendar")]
            if r.random() < 0.2:
                j = int(r.random() * 7)
                turns.append(Turn(say(r, ["And before <d>?", "and before <d>", "what comes before <d>?", "and the day before <d>?"],
                    d=DAYS[j]), f"Before {DAYS[j]} comes {DAYS[(j - 1) % 7]}.", "calendar", key=f"follow before {i} {j}"))
            elif r.random() < 0.4:
                j = int(r.random() * 7)
                turns.append(Turn(say(r, ["And after <d>?", "and <d>?", "what about <d>?", "And what comes after <d>?"], d=DAYS[j]),
                    f"After {DAYS[j]} comes {DAYS[(j + 1) % 7]}.",
                                  "calendar", key=f"follow day {i} {j}"))
            elif r.random() < 0.4:
                turns.append(Turn(say(r, ["And after that?", "and then?", "what comes next?", "and the next one?"]),
                                  f"After {DAYS[(i + 1) % 7]} comes {DAYS[(i + 2) % 7]}.", "calendar", key=f"then day {i}"))
            return turns
        if how == 1:
            return [Turn(say(r, ["{What|Which} day {comes|is} before <d>?", "What comes before <d>?", "day before <d>",
                "If today is <d>, what {day was it |was }yesterday?",
                                 "today is <d>. what was yesterday?"], d=DAYS[i]), f"Before {DAYS[i]} comes {DAYS[(i - 1) % 7]}.",
                                 "calendar")]
        if how == 2:
            return [Turn(say(r, ["{What|Which} is the <o> day of the week?", "the <o> day of the week", "<o> day of the week?"],
                o=ORDINALS[i]),
                         f"The {ORDINALS[i]} day of the week is {DAYS[i]}.", "calendar")]
        return [Turn(say(r, ["Is <d> {a weekday|on the weekend|a working day|part of the weekend}?", "is <d> weekend?"], d=DAYS[i]),
                     f"{DAYS[i]} is {'part of the weekend' if i > 4 else 'a weekday'}.", "calendar")]
    i = int(r.random() * 12)
    how = int(r.random() * 5)
    m = MONTHS[i]
    if how == 0:
        return [Turn(say(r, ["{What|Which} month {comes|is} after <m>?", "What comes after <m>?", "month after <m>",
            "What month follows <m>?"], m=m),
                     f"After {m} comes {MONTHS[(i + 1) % 12]}.", "calendar")]
    if how == 1:
        return [Turn(say(r, ["{What|Which} month {comes|is} before <m>?", "What comes before <m>?", "month before <m>"], m=m),
            f"Before {m} comes {MONTHS[i - 1]}.", "calendar")]
    if how == 2:
        return [Turn(say(r, ["{What|Which} is the <o> month{ of the year|}?", "the <o> month of the year", "<o> month?",
            "{What is |Which is |}month number <n>?"],
                         o=ORDINALS[i], n=i + 1), f"The {ORDINALS[i]} month is {m}.", "calendar")]
    if how == 3:
        days = f"{LENGTHS[i]} days" + (", or 29 in a leap year" if i == 1 else "")
        turns = [Turn(say(r, ["How many days {does <m> have|are in <m>|are there in <m>|has <m>}?", "days in <m>",
            "how long is <m>"], m=m), f"{m} has {days}.", "calendar")]
        if r.random() < 0.3:
            j = int(r.random() * 12)
            days = f"{LENGTHS[j]} days" + (", or 29 in a leap year" if j == 1 else "")
            turns.append(Turn(say(r, ["And <m>?", "and <m>?", "what about <m>?", "and in <m>?", "How about <m>?"], m=MONTHS[j]),
                f"{MONTHS[j]} has {days}.", "calendar",
                              key=f"follow month {i} {j}"))
        return turns
    s = SEASONS[(i - 2) % 12 // 3]
    return [Turn(say(r, ["{What|Which} season is {it in |}<m>{ in|}?", "season of <m>", "which season does <m> belong to?"], m=m),
                 f"{m} belongs to {s}, north of the equator.", "calendar")]


def letters(r, ctx):
    i = int(r.random() * 26)
    how = int(r.random() * 4)
    if how == 0 and i < 25:
        return [Turn(say(r, ["{What|Which} letter {comes|is} {after|next after} <l>?", "letter after <l>",
            "What letter follows <l>?", "what comes after {the letter |}<l> in the alphabet?"], l=ABC[i]),
                     f"After {ABC[i]} comes {ABC[i + 1]}.", "letters")]
    if how == 1 and i > 0:
        return [Turn(say(r, ["{What|Which} letter {comes|is} before <l>?", "letter before <l>",
            "what comes before {the letter |}<l> in the alphabet?"], l=ABC[i]),
                     f"Before {ABC[i]} comes {ABC[i - 1]}.", "letters")]
    w = pick(r, SPELLED)
    if how == 2:
        return [Turn(say(r, ["{What is|Which is|What's} the first letter of <w>?", "first letter of <w>",
            "<w> starts with which letter?", "which letter does <w> start with"], w=w),
                     f"The first letter of {w} is {w[0].upper()}.", "letters", exact=True)]
    return [Turn(say(r, ["{Spell|How do you spell|Can you spell|How is <w> spelled:} <w>{?|}", "spell {the word |}<w>",
        "spelling of <w>"], w=w),
                 "-".join(w.upper()) + ".", "letters", exact=True)]


def opposite(r, ctx):
    w = pick(r, list(OPPOSITE))
    turns = [Turn(say(r, ["{What is|What's|Whats|Tell me|Give me|Name} the opposite {of|to} <w>{?|}", "opposite of <w>",
        "<w> is the opposite of what?", "<w>: what is the opposite?", "<w> - {what's |}the opposite?", "<w> and its opposite",
        "the opposite of <w>?",
                          "{What is|Give me} an antonym {of|for} <w>", "antonym of <w>", "What's the contrary of <w>?",
                          "which word is the opposite of <w>"], w=w),
                  f"The opposite of {w} is {OPPOSITE[w]}.", "opposites", exact=True)]
    if r.random() < 0.4:
        v = pick(r, list(OPPOSITE))
        turns.append(Turn(say(r, ["And of <w>?", "and <w>?", "and the opposite of <w>?", "what about <w>?", "and of <w>"], w=v),
            f"The opposite of {v} is {OPPOSITE[v]}.",
                          "opposites", key=f"follow {w} {v}", exact=True))
    return turns


def colour(r, ctx):
    if r.random() < 0.2:
        a, b, c = pick(r, MIXES)
        if r.random() < 0.5:
            a, b = b, a
        return [Turn(say(r, ["What {colour|color} do you get {when you mix|from mixing|if you mix} <a> and <b>?", "mix <a> and <b>",
            "what do <a> and <b> make?", "<a> and <b> make which colour?",
                             "{what is|} <a> mixed with <b>"], a=a, b=b), f"{a.capitalize()} and {b} make {c}.", "colours")]
    thing = pick(r, list(COLOURS))
    answer = f"{thing[0].upper() + thing[1:]} is {COLOURS[thing]}."
    return [Turn(say(r, ["What {colour|color} is <t>?", "{which|what} {colour|color} does <t> have?",
        "{What is|What's} the {colour|color} of <t>?", "{colour|color} of <t>", "tell me the {colour|color} of <t>"],
                     t=thing), answer, "colours")]


def _a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def animal(r, ctx):
    how = int(r.random() * 5)
    if how == 0:
        a = pick(r, list(SOUNDS))
        return [Turn(say(r, ["What {sound|noise} does <a> make?", "what does <a> say?", "how does <a> sound", "sound of <a>",
            "What do <n>s say?"], a=_a(a), n=a),
                     f"{_a(a)[0].upper() + _a(a)[1:]} says {SOUNDS[a]}.", "animals")]
    if how == 1:
        a = pick(r, list(LEGS))
        n = LEGS[a] or "no"
        return [Turn(say(r, ["How many legs does <a> have?", "number of legs of <a>", "legs of <a>", "how many legs has <a>",
            "how many legs on <a>?"], a=_a(a)),
                     f"{_a(a)[0].upper() + _a(a)[1:]} has {n} {'arms' if a == 'octopus' else 'legs'}.", "animals")]
    if how == 2:
        a = pick(r, list(YOUNG))
        return [Turn(say(r, ["What {is|do you call} a {baby|young} <n>{ called|}?", "a young <n> is called what?",
            "name of a baby <n>", "what's a baby <n> called?", "{What is|} the word for a baby <n>"], n=a),
                     f"A young {a} is called a {YOUNG[a]}.".replace("a owlet", "an owlet"), "animals")]
    if how == 3:
        a = pick(r, list(HOMES))
        return [Turn(say(r, ["Where does <a> live?", "where do <n>s live", "home of <a>"], a=_a(a), n=a),
            f"{_a(a)[0].upper() + _a(a)[1:]} lives in {HOMES[a]}.", "animals")]
    a = pick(r, list(EATS))
    return [Turn(say(r, ["What does <a> eat?", "what do <n>s eat", "food of <a>"], a=_a(a), n=a),
        f"{_a(a)[0].upper() + _a(a)[1:]} eats {EATS[a]}.".replace("mouses", "mice"), "animals")]


def grammar_fact(r, ctx):
    if r.random() < 0.5:
        w = pick(r, list(PLURALS))
        return [Turn(say(r, ["{What is|What's} the plural of <w>?", "plural of <w>", "one <w>, two what?",
            "give me the plural of <w>", "how do you say more than one <w>?"], w=w),
                     f"The plural of {w} is {PLURALS[w]}.", "words", exact=True)]
    w = pick(r, list(PASTS))
    return [Turn(say(r, ["{What is|What's} the past tense of <w>?", "past tense of <w>", "past of <w>",
        "give me the past tense of <w>"], w=w), f"The past tense of {w} is {PASTS[w]}.", "words", exact=True)]


def capital(r, ctx):
    c = pick(r, list(CAPITALS))
    full = c[0].upper() + c[1:]
    if r.random() < 0.12:
        return [Turn(say(r, ["{What|Which|In which|In what} country is <k>{ in|}?", "where is <k>?", "<k> is in which country?"],
            k=CAPITALS[c]), f"{CAPITALS[c]} is in {dict((v, k) for k, v in reversed(list(CAPITALS.items())))[CAPITALS[c]]}.",
            "capitals")]
    if r.random() < 0.12:
        k = CAPITALS[c] if r.random() < 0.5 else CAPITALS[pick(r, list(CAPITALS))]
        return [Turn(say(r, ["Is <k> the capital of <c>?", "is <k> the capital city of <c>", "<k> is the capital of <c>, right?"],
            k=k, c=c), f"{'Yes' if k == CAPITALS[c] else 'No'}, the capital of {c} is {CAPITALS[c]}.", "capitals")]
    if r.random() < 0.15:
        return [Turn(say(r, ["{Which|What} country has the capital <k>?", "<k> is the capital of which country?",
            "of which country is <k> the capital"], k=CAPITALS[c]),
                     f"{CAPITALS[c]} is the capital of {dict((v, k) for k, v in reversed(list(CAPITALS.items())))[CAPITALS[c]]}.",
                     "capitals")]
    turns = [Turn(say(r, ["{What is|What's|whats|Tell me|Name} the capital {city |}of <c>{?|}", "capital of <c>",
        "{Which|What} city is the capital of <c>?", "<c> capital", "the capital of <c> is",
                          "do you know the capital of <c>"], c=c), f"The capital of {c} is {CAPITALS[c]}.", "capitals")]
    if r.random() < 0.4:
        d = pick(r, list(CAPITALS))
        turns.append(Turn(say(r, ["And of <c>?", "and <c>?", "what about <c>?", "and the capital of <c>?", "how about <c>"], c=d),
            f"The capital of {d} is {CAPITALS[d]}.", "capitals",
                          key=f"follow {c} {d}"))
    return turns


def translate(r, ctx):
    t = pick(r, list(TONGUES))
    w = pick(r, list(TONGUES[t]))
    turns = [Turn(say(r, ["{How do you|How do I|How to} say {<w>|\"<w>\"} in <t>?",
        "{Translate|translate} {<w>|\"<w>\"} {to|into} <t>{.|}", "{What is|What's} {<w>|\"<w>\"} in <t>?", "<w> in <t>",
                          "the <t> word for <w>", "{what is |}the <t> word for <w>?"], w=w, t=t),
                          f"In {t}, {w} is \"{TONGUES[t][w]}\".", "translation", exact=True)]
    if r.random() < 0.4:
        u = pick(r, list(TONGUES))
        turns.append(Turn(say(r, ["And in <t>?", "and in <t>", "what about <t>?", "and <t>?"], t=u),
            f"In {u}, {w} is \"{TONGUES[u][w]}\".", "translation", key=f"follow {t} {u} {w}"))
    return turns


# --- units: (big, small, factor, names of the big one, names of the small one, largest count) ---
UNITS = [("GiB", "MiB", 1024, 32), ("MiB", "KiB", 1024, 16), ("KiB", "bytes", 1024, 16), ("TiB", "GiB", 1024, 8), ("GB", "MB", 1000,
    99), ("MB", "KB", 1000, 99),
         ("TB", "GB", 1000, 20), ("KB", "bytes", 1000, 99), ("byte", "bits", 8, 64), ("hour", "minutes", 60, 24), ("minute",
         "seconds", 60, 30), ("day", "hours", 24, 14),
         ("week", "days", 7, 12), ("year", "months", 12, 10), ("km", "m", 1000, 99), ("m", "cm", 100, 50), ("cm", "mm", 10, 50),
         ("kg", "g", 1000, 50), ("litre", "ml", 1000, 20),
         ("ton", "kg", 1000, 20)]
LONG = {"km": ["kilometre", "kilometer", "km"], "m": ["metre", "meter", "m"], "cm": ["centimetre", "centimeter", "cm"],
    "mm": ["millimetre", "mm"], "kg": ["kilogram", "kilo", "kg"],
        "g": ["gram", "g"], "litre": ["litre", "liter", "l"], "ml": ["millilitre", "ml"], "GiB": ["gibibyte", "GiB", "GiB"],
        "MiB": ["MiB", "MiB", "mebibyte"], "GB": ["gigabyte", "GB", "GB"],
        "MB": ["megabyte", "MB", "MB"], "KB": ["kilobyte", "KB", "KB"], "TB": ["terabyte", "TB", "TB"]}


def _unit(r, u, n):
    name = pick(r, LONG.get(u, [u]))
    short = len(name) <= 3 or name.endswith("s")
    return name if short or n == 1 else name + "s"


def _units(n, u):
    return f"{n} {u}" if n == 1 or u[-1] == "s" or len(u) <= 3 and u != "day" and u != "ton" else f"{n} {u}s"


def units(r, ctx):
    big, small, f, top = pick(r, UNITS)
    n = 1 if r.random() < 0.35 else 1 + int(r.random() * top)
    one = {"minutes": "minute", "seconds": "second", "hours": "hour", "days": "day", "months": "month", "bytes": "byte",
        "bits": "bit"}
    if r.random() < 0.75:
        b, s = _unit(r, big, n), _unit(r, small, 2)
        user = say(r, ["How many <s> {are|are there|is|fit} in {<n> <b>|<n> <b>}?", "{What is|What's|How much is} <n> <b> in <s>?",
            "{Convert|convert} <n> <b> {to|into|in} <s>{.|}", "<n> <b> {in|to} <s>{?|}",
                       "how many <s> is <n> <b>", "<n> <b> {=|equals|is} how many <s>?", "<n> <b> are how many <s>?"], n=n, b=b,
                       s=s)
        turns = [Turn(user, f"{_units(n, big)} {'is' if n == 1 else 'are'} {n * f} {small}.", "units")]
        if r.random() < 0.35:
            m = 1 + int(r.random() * top)
            turns.append(Turn(say(r, ["And <n>?", "and <n> <b>?", "what about <n> <b>?", "and <n>", "How about <n>?"], n=m,
                b=_unit(r, big, m)),
                              f"{_units(m, big)} {'is' if m == 1 else 'are'} {m * f} {small}.", "units",
                              key=f"follow {big} {n} {m}"))
        return turns
    user = say(r, ["How many <b> {are|are there in|is} <n> <s>?", "{What is|What's|How much is} <n> <s> in <b>?",
        "{Convert|convert} <n> <s> {to|into|in} <b>{.|}", "<n> <s> {in|to} <b>{?|}"],
               n=n * f, b=_unit(r, big, 2), s=_unit(r, small, 2))
    return [Turn(user, f"{n * f} {small} are {_units(n, big)}.", "units")]
