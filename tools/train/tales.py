"""Stories, poems, jokes, riddles, lists and tiny programs."""
import random
import zlib

from grammar import Turn, pick, say
from talk import a_name, made_up

HEROES = """fox|bear|rabbit|mouse|cat|dog|owl|wolf|frog|hedgehog|squirrel|duck|turtle|bird|fish|whale|elephant|lion|tiger|penguin|pig|horse|sheep|goat|bee|ant|snail|dragon|robot|princess|knight|king|queen|wizard|pirate|astronaut|girl|boy|farmer|baker|sailor|painter|teacher|doctor|fisherman|
cloud|star|moon|tree|river|snowman|train|boat|car|clock|lamp|book|teapot|computer|toaster|kite|balloon|pumpkin|stone|flower|leaf|raindrop|GPU|server|little model|ghost|fairy|giant|dwarf|unicorn|dinosaur|crab|octopus|dolphin|seal|kitten|puppy|crow|spider|butterfly|firefly|deer|
monkey|giraffe|zebra|camel|kangaroo|koala|panda|parrot|swan|goose|chicken|rooster|donkey|cow|badger|otter|beaver|mole|bat|lizard|crocodile|shark|seahorse|mermaid|alien|monster|witch|shepherd|miller|gardener|cook|thief|soldier|child|grandmother|grandfather""".replace("\n", "").split("|")
PLACES = {"sea": "by the sea", "forest": "in a deep forest", "mountains": "high in the mountains", "village": "in a small village",
    "city": "in a big city", "island": "on a small island", "desert": "at the edge of the desert", "farm": "on an old farm",
    "river": "near a wide river",
          "castle": "in an old castle", "moon": "on the moon", "garden": "in a quiet garden", "lake": "beside a clear lake",
          "jungle": "in a green jungle", "north": "in the cold north", "library": "in a dusty library", "space": "among the stars",
          "winter": "in a land of snow", "night": "where the nights are long",
          "summer": "where it is always summer", "server room": "in a warm server room"}
CALLED = "Pip Lulu Bruno Mimi Otto Tilda Momo Nino Luna Rudi Fina Bo Kiki Tam Oskar Wilma Juno Filo Bella Toto Hilda Rufus Nelly Milo".split()
ADJ = "small brave curious quiet clever gentle shy cheerful tired young old lonely kind little lazy busy".split()
WANT = [("find a friend", "a friend"), ("see the sea", "the sea"), ("learn to sing", "a song of joy"), ("touch the moon",
    "the moon"), ("find the lost key", "the key"), ("build a bridge", "the right stones"), ("bake the best bread", "good bread"),
    ("read every book", "a book"), ("cross the river", "the other side"), ("grow a garden", "the first flower"),
        ("sleep without fear", "a night light"), ("win the great race", "the golden cup"), ("find the way home", "the way home"),
        ("see the first snow", "the snow"), ("count all the stars", "the last star"), ("hear the oldest story", "the story"),
        ("fly above the clouds", "the clouds"), ("find a hidden treasure", "the treasure")]
TROUBLE = ["But a storm came, and the wind was louder than any voice.", "But the path was long, and the night came early.",
    "But a high wall stood in the way.", "But nobody knew the way.", "But the bridge was broken.",
    "But everybody laughed and said that it could not be done.", "But on the first day it rained and rained.",
           "But a thick fog hid the road.", "But the map was old and half of it was missing.",
           "But the hill was steep and slippery."]
HELPERS = [("an old owl", "Take one step, and then another one."), ("a tiny mouse", "Small feet find small doors."),
    ("a friendly crow", "Look again, and look slowly."), ("a wise turtle", "There is time enough for everything."),
    ("a cheerful robot", "Let us count the steps together."), ("a lost kitten", "Two are braver than one."),
           ("an old sailor", "Wait for the wind, and then go."), ("a little star", "I will shine for you."), ("a sleepy bear",
           "Rest first, and try again in the morning."), ("a singing frog", "A song makes every road shorter.")]
EFFORT = ["So they went on together.", "They tried once, and twice, and a third time.",
    "Step by step they went on, and they did not give up.", "All night they worked, and they sang to stay awake.",
    "They shared their bread and made a plan."]
LESSONS = ["From that day on, nobody in that place said that small ones could not do great things.",
    "And whoever passed by heard them laugh.", "Since then, a little lamp burns there every night.",
    "And that is how they learned that help comes to those who ask.", "They are friends to this day.",
    "And if they have not moved away, they are still there.",
           "And every year they tell the story again.", "That night, they slept better than ever before."]


def _a(noun):
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun


def story(r, hero=None, name=None, place=None, friend=None, again=""):
    # The same request mostly gets the same story: greedy answers then differ from hero to hero, and are whole.
    if r.random() < 0.8:
        r = random.Random(zlib.crc32(f"{hero} {place} {friend} {again}".encode()))
    hero = hero or pick(r, HEROES)
    drawn = pick(r, CALLED)
    name = name or drawn
    where = PLACES[place] if place else pick(r, list(PLACES.values()))
    want, thing = pick(r, WANT)
    adj = pick(r, ADJ)
    who, advice = pick(r, HELPERS) if not friend else ("the " + friend, pick(r, HELPERS)[1])
    the = f"the {hero}"
    start = say(r, ["Once upon a time there was <a> who lived <w>.", "Once upon a time, <w>, there lived <a>.",
        "There once was <a> who lived <w>.", "Long ago, <w>, there lived <a>."],
                a=_a(f"{adj} {hero}"), w=where)
    named = say(r, ["{The <h>'s name was <n>.|Everybody called the <h> <n>.}"], h=hero, n=name)
    wish = say(r, ["<n> had one wish: to <w>.", "More than anything, <n> wanted to <w>.",
        "Every evening <n> dreamed of one thing: to <w>.", "One morning <n> decided to <w>."], n=name, w=want)
    help_ = (say(r, ["Then <n> met <x>. \"<y>\" said the <z>.", "Just then <x> came by and said: \"<y>\""], n=name, x=who, y=advice,
        z=who.split(" ", 1)[1]) if not friend else
             say(r, ["Then <n> met <f>. \"<y>\" said <x>.", "One day <f> came by and said: \"<y>\""], n=name, f=_a(friend), x=who,
                 y=advice))
    help_ = help_.replace('."', ',"') if '" said' in help_ else help_
    end = say(r, ["In the end <n> found <t>, and <h> was the happiest of all.",
        "And when the sun came up, there it was: <t>. <n> cried with joy.", "At last <n> found <t> and laughed out loud.",
        "And one fine day <n> saw it at last: <t>! How <n> danced!"], n=name, t=thing, h=the)
    parts = [start, named, wish, pick(r, TROUBLE), help_, pick(r, EFFORT), end, pick(r, LESSONS)]
    return " ".join(parts), (name, want)


MANY = {"mouse": "mice", "wolf": "wolves", "fox": "foxes", "fish": "fish", "sheep": "sheep", "child": "children", "goose": "geese",
    "fairy": "fairies", "butterfly": "butterflies", "puppy": "puppies", "witch": "witches", "knight": "knights"}


def pair(r, hero, again=""):
    """A story about two of a kind."""
    many = MANY.get(hero, hero + "s")
    if r.random() < 0.8:
        r = random.Random(zlib.crc32(f"two {hero} {again}".encode()))
    one, other = r.sample(CALLED, 2)
    want, thing = pick(r, WANT)
    return (f"Once upon a time, {pick(r, list(PLACES.values()))}, there lived two {many}, {one} and {other}. They shared everything, and they had one wish: to {want}. {pick(r, TROUBLE)} \"Let us stay together,\" said {one}. \"Yes,\" said {other}, "
            f"\"two are braver than one.\" {pick(r, EFFORT)} At last they found {thing}, and both laughed out loud. {pick(r, LESSONS)}")


T = "{Tell|tell} me a{ short| little| nice| new| funny| bedtime|} {story|tale|fairy tale}"
ASK_STORY = [T + " about <h>{.|!| please|}", "{Write|write}{ me|} a{ short| little|} story about <h>{.|}",
    "{Can|Could} you tell me a story about <h>?", "I {want|would like|'d like} {to hear |}a story about <h>{.|}",
    "a story about <h>{ please|}", "story about <h>", "make up a story about <h>", "do you know a story about <h>?",
             "{Give|give} me a story {about|with} <h>", "{Invent|invent|create|compose} a story about <h>",
             "please tell a story about <h>", "a {tale|fairy tale|short story} about <h>", "tell us about <h> in a story",
             "Once upon a time there was <h>. How does it go on?", "short story about <h>"]
ASK_ANY = [T + "{.|!| please|}", "{Write|write}{ me|} a{ short|} story{.|}", "{Can|Could} you tell me a{ short|} story?",
    "story please", "a story", "I want {to hear |}a story{.|}", "tell me another story", "another story{ please|}", "story time",
    "make up a story", "one more story", "do you know a story?", "give me a story", "read me a story",
           "something to read please", "tell a story", "story!"]


def tale(r, ctx):
    how = r.random()
    if how < 0.05:
        hero = pick(r, HEROES)
        return [Turn(say(r, ASK_STORY, h="two " + pick(r, ["", "", "little ", "small "]) + MANY.get(hero, hero + "s")), pair(r,
            hero), "stories", must=(MANY.get(hero, hero + "s"), "two"), exact=True)]
    got = getattr(ctx, "pet", None)
    if got and r.random() < 0.4:
        text, _ = story(r, *got)
        return [Turn(say(r, ASK_STORY, h=pick(r, ["my " + got[0], got[1], "him", "her", "it", "my pet",
            got[1] + " the " + got[0]])), text, "stories", must=got, exact=True)]
    how = (how - 0.05) / 0.95
    if how < 0.2:
        text, _ = story(r, again=str(len(ctx.turns)))
        return [Turn(say(r, ASK_ANY), text, "stories", must=("lived",))]
    hero = pick(r, HEROES) if r.random() < 0.88 else made_up(r, 2)
    if how < 0.62:
        text, told = story(r, hero)
        adj = pick(r, ["", "", "", "", "little ", "small ", "big ", "old "])
        turns = [Turn(say(r, ASK_STORY, h=_a(adj + hero) if r.random() < 0.93 else hero + "s"), text, "stories", must=(hero,),
            exact=True)]
    elif how < 0.68:
        place = pick(r, list(PLACES))
        text, told = story(r, hero, None, place)
        turns = [Turn(say(r, ASK_STORY, h=_a(hero) + pick(r, [" who lives ", " that lives ", " living ",
            " "]) + PLACES[place].replace("by the sea", pick(r, ["by the sea", "at the sea"]))), text, "stories", must=(hero,
            PLACES[place]), exact=True)]
    elif how < 0.78:
        name = a_name(r)
        text, told = story(r, hero, name)
        turns = [Turn(say(r, ASK_STORY, h=_a(hero) + pick(r, [" named ", " called ", " with the name "]) + name), text, "stories",
            must=(hero, name), exact=True)]
    elif how < 0.9:
        place = pick(r, list(PLACES))
        text, _ = story(r, None if place != "server room" else "robot", None, place)
        turns = [Turn(say(r, ASK_STORY, h="the " + place if place not in ("space", "winter", "summer") else place), text, "stories",
            must=(PLACES[place],), exact=True)]
    else:
        friend = pick(r, [h for h in HEROES if h != hero])
        text, _ = story(r, hero, None, None, friend)
        turns = [Turn(say(r, ASK_STORY, h=_a(hero) + pick(r, [" and ", " and ", " who meets ", " with "]) + _a(friend)), text,
            "stories", must=(hero, friend), exact=True)]
    if r.random() < 0.4:
        again = r.random()
        if how < 0.78 and again < 0.5:
            name, want = told
            if again < 0.3:
                turns.append(Turn(say(r, ["{What was|What is|What's} {the name of the <h>|the <h>'s name|the <h> called}?",
                    "{what was|what is} the name of the {hero|<h>}?", "how was the <h> called?", "who was the <h>?",
                    "what is it called?", "and the name of the <h>?"], h=hero), f"The {hero}'s name was {name}.", "stories",
                    key=f"who {hero} {name}", exact=True))
            else:
                turns.append(Turn(say(r, ["What did <n> want{ to do|}?", "what was the wish of <n>?", "what did the <h> want?",
                    "what was {its|the <h>'s} wish?"], n=name, h=hero), f"{name} wanted to {want}.", "stories",
                    key=f"wish {hero} {name} {want}", exact=True))
        elif again < 0.7:
            text, _ = story(r, hero, again=pick(r, "12"))
            turns.append(Turn(say(r, ["Another one{ please|}", "tell me another{ one|}", "one more{ please|}", "again!",
                "another story", "and another one?", "more!", "{I liked it. |}One more?"]), text, "stories", must=("lived",),
                key="again" + text))
        else:
            turns.append(Turn(say(r, ["{That was|That is|What} a {nice|lovely|beautiful|good|great} story{!|.|}", "nice story",
                "I like {it|that story|the story}", "good story{!|}", "lovely{!|}"]), "Thank you! Shall I tell another one?",
                "stories", key="nice" + text))
    return turns


JOKES = ["Why did the GPU go to the doctor? It had a memory leak.", "Why was the tensor so calm? It had found its place.",
    "What did the small model say to the large one? You carry a lot of weight.",
    "Why did the server never get lost? It always knew its host.", "Why do programmers like the dark? Light attracts bugs.",
         "What is a robot's favourite snack? Computer chips.", "Why was the computer cold? It left its windows open.",
         "Why did the token cross the road? To get to the other slide of the window.",
         "Why did the cache laugh? It remembered a good one.", "How many layers does a happy model have? Enough to fit in.",
         "Why was the number six afraid? Because seven ate nine.", "What did the zero say to the eight? Nice belt!"]
ASK_JOKE = ["{Tell|tell} me a{ good| funny| short| new|} joke{.|!| please|}", "{Do you know|know} {a|any|some} joke{s|}?",
    "joke please", "a joke", "make me laugh", "say something funny", "{another|one more} joke{ please|}",
    "{Can|Could} you tell {me |}a joke?", "joke", "tell a joke", "I want {to hear |}a joke", "got any jokes?", "be funny",
    "cheer me up", "give me a joke",
            "do you know something funny?", "tell me something funny",
            "{tell|know} {me |}a joke about {computers|GPUs|animals|cats|programmers|robots|models|food|numbers|<x>}",
            "a {joke|pun} about <x>"]
RIDDLES = [("What has keys but opens no door?", "A piano"), ("What has hands but cannot clap?", "A clock"),
    ("What gets wetter the more it dries?", "A towel"), ("What has teeth but cannot bite?", "A comb"),
    ("What goes up and never comes down?", "Your age"), ("What has one eye but cannot see?", "A needle"),
           ("What runs but has no legs?", "A river"), ("What can you catch but not throw?", "A cold")]


def joke(r, ctx):
    if r.random() < 0.3:
        q, a = pick(r, RIDDLES)
        turns = [Turn(say(r, ["{Tell|Give|Ask} me a riddle{.| please|}", "{do you know |}a riddle{?|}", "riddle me something",
            "riddle please", "ask me a riddle", "another riddle"]), "Here is one: " + q, "jokes", must=("Here is one",))]
        turns.append(Turn(say(r, ["I don't know{.|}", "{what|What} is the answer?", "tell me{ the answer|}", "I give up{.|}",
            "no idea", "the answer?", "what is it?", "solution?", "i dont know"]), f"{a}!", "jokes", key="riddle" + q))
        if r.random() < 0.4:
            turns[-1] = Turn(say(r, ["{Is it |}{a|} <a>{?|}", "<a>!", "is it <a>?", "<a>"], a=a.lower()), "Yes, well done!",
                "jokes", key="solved" + q)
        return turns
    turns = [Turn(say(r, ASK_JOKE, x=pick(r, HEROES)), pick(r, JOKES), "jokes", must=("?",))]
    if r.random() < 0.3:
        other = JOKES[(JOKES.index(turns[0].answer) + 1) % len(JOKES)]
        turns.append(Turn(say(r, ["another one{ please|}", "one more{ please|}", "again", "more", "another", "tell me another one",
            "another joke"]), other, "jokes", must=("?",), key="again" + turns[0].user))
    return turns


LINES = {"sea": ["The sea is wide, the sea is deep,", "and all the little fishes sleep.", "The moon looks down, the waves go slow,",
    "and sing of things that sailors know."], "moon": ["The moon is round, the moon is bright,", "a silver lamp for all the night.",
    "It walks so softly through the sky", "and never stops to wonder why."],
         "rain": ["The rain comes down on roof and tree", "and plays a little song for me.", "It fills the pond, it wets the lane,",
         "and then the sun comes out again."], "cat": ["My cat is quick, my cat is small,", "she walks along the garden wall.",
         "She shuts her eyes, she dreams of fish,", "and purrs about her evening wish."],
         "GPU": ["My GPU is warm tonight,", "its little fans are spinning light.", "Each layer has its proper place,",
         "and there is even some free space."], "robot": ["A robot woke at half past three", "and made itself a cup of tea.",
         "It could not drink, it did not mind,", "it gave the tea to me: how kind."],
         "spring": ["The snow is gone, the birds are back,", "a green leaf opens on the track.",
         "The days grow long, the wind is mild,", "and laughs a little like a child."],
         "winter": ["The snow lies soft on hill and town,", "and quiet flakes come drifting down.",
         "Inside, the fire is warm and low,", "and tells of summers long ago."],
         "night": ["The day is done, the lamps are lit,", "the cat comes home to rest a bit.",
         "The stars are counting, one by one,", "until the early morning sun."], "friend": ["A friend is one who shares the way",
         "on sunny and on rainy day.", "We do not need to talk at all,", "and still we hear each other's call."],
         "tree": ["The tree stands still, the tree stands tall,", "it has a leaf for one and all.",
         "It holds the nest, it holds the sky,", "and lets the little clouds go by."], "dog": ["My dog runs out, my dog runs in,",
         "he greets me with a happy spin.", "He does not ask for much, you see:", "a stick, a bone, a walk with me."]}


def poem(r, ctx):
    topic = pick(r, list(LINES))
    if r.random() < 0.2:
        return [Turn(say(r, ["{Write|write|Tell|tell|Give|give|Recite} {me |}a {short |little |}poem{.|}", "a poem please", "poem",
            "do you know a poem?", "{can|could} you write a poem?", "write something that rhymes", "make a rhyme", "a short poem"]),
            "\n".join(LINES[topic]), "poems", must=("\n",))]
    said = {"GPU": pick(r, ["a GPU", "GPUs", "my GPU", "a graphics card"]), "sea": pick(r, ["the sea", "the ocean", "waves"]),
        "moon": "the moon", "rain": pick(r, ["rain", "the rain"]), "spring": "spring", "winter": pick(r, ["winter", "snow"]),
        "night": pick(r, ["the night", "night"]),
            "friend": pick(r, ["friendship", "a friend", "friends"]), "tree": pick(r, ["a tree", "trees"])}.get(topic, pick(r,
            ["a " + topic, "my " + topic, topic + "s"]))
    return [Turn(say(r, ["{Write|write|Tell|tell|Give|give} {me |}a {short |little |}poem about <t>{.|}",
        "a poem about <t>{ please|}", "poem about <t>", "{can|could} you write a poem about <t>?", "make a poem about <t>",
        "{i want|i'd like} a poem about <t>", "{write|compose} a {verse|rhyme|haiku|song} about <t>"], t=said),
        "\n".join(LINES[topic]), "poems")]


def any_poem(r, ctx):
    """A poem about anything: the subject is copied."""
    h = pick(r, HEROES) if r.random() < 0.8 else made_up(r, 2)
    if h in LINES:
        return poem(r, ctx)
    text = f"I met {_a(h)} upon the way,\nand asked if it would like to play.\nThe {h} smiled and came along,\nand so we sang this little song."
    return [Turn(say(r, ["{Write|write|Tell|tell|Give|give} {me |}a {short |little |}poem about <t>{.|}",
        "a poem about <t>{ please|}", "poem about <t>", "{can|could} you write a poem about <t>?", "make a poem about <t>"],
        t=_a(h)), text, "poems", must=(h,), exact=True)]


LISTS = {"fruits": "apple banana cherry orange pear plum grape lemon peach mango".split(),
    "vegetables": "carrot potato tomato onion cabbage pea bean cucumber spinach pumpkin".split(),
    "colours": "red blue green yellow orange purple black white brown pink".split(),
         "animals": "dog cat horse lion elephant rabbit fox bear whale owl".split(),
         "birds": "sparrow eagle owl crow swan duck robin penguin parrot stork".split(),
         "countries": "France Germany Italy Japan Brazil Canada Egypt India Spain Kenya".split(),
         "cities": "Paris London Rome Tokyo Berlin Madrid Vienna Cairo Lima Oslo".split(),
         "drinks": "water milk tea coffee juice lemonade cocoa soda".split(),
         "tools": "hammer saw drill screwdriver wrench pliers axe file".split(),
         "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
         "instruments": "piano violin guitar drum flute trumpet harp cello".split(),
         "sports": "football tennis swimming running basketball skiing chess cycling".split(),
         "programming languages": "Python C Rust Go Java JavaScript Ruby Haskell".split(),
         "flowers": "rose tulip daisy lily violet sunflower orchid poppy".split(),
         "trees": "oak pine birch maple beech willow ash elm".split(), "numbers": "1 2 3 4 5 6 7 8 9 10".split(),
         "shapes": "circle square triangle rectangle pentagon hexagon oval star".split(),
         "GPUs": ["RTX 3060", "RTX 3090", "RTX 4070", "RTX 4090", "RTX 5090", "RX 7900 XTX", "A100", "H100"],
         "metals": "iron gold silver copper tin lead zinc aluminium".split(),
         "clothes": "shirt trousers jacket hat socks shoes scarf gloves".split(),
         "family members": "mother father sister brother aunt uncle cousin grandmother".split(),
         "quantizations": ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"],
         "insects": "ant bee fly beetle butterfly wasp cricket moth".split(),
         "fish": "salmon tuna trout cod carp herring pike shark".split(),
         "furniture": "table chair bed sofa shelf desk cupboard lamp".split()}


def listing(r, ctx):
    what = pick(r, list(LISTS))
    n = min(2 + int(r.random() * 6), len(LISTS[what]))
    said = {"colours": pick(r, ["colours", "colors"]), "GPUs": pick(r, ["GPUs", "graphics cards", "cards", "gpus"])}.get(what, what)
    if r.random() < 0.25:
        user = say(r, ["{List|list|Name|Give me|Show me|name|write} {some|a few} <w>{.| please|}",
            "{Make|make|Write|write|Show me|give me} a {bullet |bulleted |}list {of|with} <w>{.|}", "{a |}{bullet |}list of <w>",
            "{which|what} <w> do you know?", "some <w>", "examples of <w>"], w=said)
        return [Turn(user, "\n".join("- " + x for x in LISTS[what][:5]), "lists")]
    count = pick(r, [str(n), "two three four five six seven".split()[n - 2]])
    user = say(r, ["{List|list|Name|name|Give me|Tell me|Show me|Write|tell me|give me} <n> <w>{.| please|}",
        "{Make|make|Write|write} a list of <n> <w>{.|}", "a list of <n> <w>", "{Can|Could} you {name|list} <n> <w>?",
        "<n> <w>{ please|}", "what are <n> <w>?", "I need <n> <w>", "name me <n> <w>"], n=count, w=said)
    return [Turn(user, "\n".join("- " + x for x in LISTS[what][:n]), "lists", key=f"list {what} {n} {user[:12]}")]


def numbered(r, ctx):
    todo = [("make tea", ["Boil some water.", "Put tea into a cup.", "Pour the water over it.", "Wait for three minutes.",
        "Enjoy it."]), ("serve a model", ["Get a GGUF file.", "Run `vram-llm plan model.gguf` to see the placement.",
        "Run `vram-llm serve model.gguf`.", "Open http://127.0.0.1:8080 and chat."]),
            ("choose a GPU for a model", ["Add up weights, KV cache and 1 GiB of reserve.",
            "Look for a card with at least that much memory.", "Compare the bandwidth: more is faster.",
            "Check with `vram-llm plan --gpus`."]), ("make a sandwich", ["Take two slices of bread.", "Spread some butter.",
            "Add cheese and tomato.", "Put them together."]),
            ("plant a tree", ["Dig a hole.", "Put the young tree into it.", "Fill it with earth.", "Water it well."]),
            ("brush your teeth", ["Put some toothpaste on the brush.", "Brush for two minutes.", "Rinse with water."]),
            ("boil an egg", ["Boil some water.", "Put the egg into it.", "Wait for seven minutes.", "Cool it with cold water."])]
    what, steps = pick(r, todo)
    return [Turn(say(r, ["How {do I|can I|to|do you} <w>?", "{Give|give|Tell|tell|Show|show} me the steps to <w>{.|}",
        "steps to <w>", "explain step by step how to <w>", "{list|write} the steps to <w>"], w=what), "\n".join(f"{i + 1}. {s}"
        for i, s in enumerate(steps)), "lists")]


PROGRAMS = {
    "hello": {"Python": ('python', 'print("Hello, world!")'), "C": ('c',
    '#include <stdio.h>\n\nint main(void)\n{\n    puts("Hello, world!");\n    return 0;\n}'), "bash": ('sh',
    'echo "Hello, world!"'), "JavaScript": ('js', 'console.log("Hello, world!");'), "Rust": ('rust',
    'fn main() {\n    println!("Hello, world!");\n}'),
              "Go": ('go', 'package main\n\nimport "fmt"\n\nfunc main() {\n    fmt.Println("Hello, world!")\n}'), "Java": ('java',
              'class Hello {\n    public static void main(String[] args) {\n        System.out.println("Hello, world!");\n    }\n}'),
              "C++": ('cpp', '#include <iostream>\n\nint main()\n{\n    std::cout << "Hello, world!\\n";\n}'),
              "Ruby": ('ruby', 'puts "Hello, world!"'), "HTML": ('html',
              '<!doctype html>\n<title>Hello</title>\n<h1>Hello, world!</h1>')},
    "add": {"Python": ('python', 'def add(a, b):\n    return a + b'), "C": ('c', 'int add(int a, int b)\n{\n    return a + b;\n}'),
    "JavaScript": ('js', 'function add(a, b) {\n    return a + b;\n}'), "Rust": ('rust',
    'fn add(a: i32, b: i32) -> i32 {\n    a + b\n}'), "Go": ('go', 'func add(a, b int) int {\n    return a + b\n}')},
    "loop": {"Python": ('python', 'for i in range(1, 11):\n    print(i)'), "C": ('c',
    'for (int i = 1; i <= 10; i++) {\n    printf("%d\\n", i);\n}'), "bash": ('sh', 'for i in $(seq 1 10); do\n    echo "$i"\ndone'),
    "JavaScript": ('js', 'for (let i = 1; i <= 10; i++) {\n    console.log(i);\n}'), "Rust": ('rust',
    'for i in 1..=10 {\n    println!("{}", i);\n}')},
    "max": {"Python": ('python', 'def largest(numbers):\n    return max(numbers)'), "C": ('c',
    'int max(int a, int b)\n{\n    return a > b ? a : b;\n}'), "JavaScript": ('js',
    'function max(a, b) {\n    return a > b ? a : b;\n}')},
    "fact": {"Python": ('python', 'def factorial(n):\n    return 1 if n < 2 else n * factorial(n - 1)'), "C": ('c',
    'long factorial(int n)\n{\n    return n < 2 ? 1 : n * factorial(n - 1);\n}'), "JavaScript": ('js',
    'function factorial(n) {\n    return n < 2 ? 1 : n * factorial(n - 1);\n}')},
}
ASK_CODE = {"hello": ["{Write|write|Show|show|Give|give} {me |}{a |the |}hello world{ program| script|} in <l>{.|}",
    "hello world in <l>", "<l> hello world", "{Can|Could} you write hello world in <l>?",
    "how do I {print|write} hello world in <l>?", "{write|show me} {a|an} {small |simple |tiny |short |}<l> program",
    "{a |}simple <l> {program|example|code}", "some <l> code{ please|}", "an example in <l>",
                      "print hello in <l>", "code in <l>",
                      "{Write|write} {me |}{a|an} {small |simple |short |}<l> {script|program}{.|}", "{a|an} <l> script",
                      "{Write|write} {some |}<l> code"],
            "add": ["{Write|write|Show|show} {me |}a{ <l>|} function {that adds|to add|which adds} two numbers in <l>{.|}",
            "add two numbers in <l>", "<l> function {that adds|to add} two numbers",
            "{Write|write} a <l> function that adds two numbers{.|}",
            "{Write|write} a function in <l> that {returns the sum of|adds} two numbers", "{a |the |}sum function in <l>",
            "a function for the sum in <l>",
    "{sum|add} {of |}two numbers in <l>", "<l> sum function", "sum {function|two numbers} {with|using} <l>"],
            "loop": ["{Write|write|Show|show} {me |}a loop in <l>{.|}", "{for |}loop in <l>", "<l> loop",
            "how do I {write|make} a {for |}loop in <l>?", "{count|print the numbers} from 1 to 10 in <l>",
            "{Write|write} a <l> program that {counts to 10|prints the numbers from 1 to 10}{.|}"],
            "max": ["{Write|write} a function {that finds|for} the {largest|maximum|biggest} number in <l>{.|}",
            "max function in <l>", "find the {maximum|largest number} in <l>",
            "{Write|write} a <l> function that {returns|finds} the {maximum|larger of two numbers}"],
            "fact": ["{Write|write} a factorial function in <l>{.|}", "factorial in <l>", "<l> factorial",
            "{Write|write} a <l> function for the factorial{.|}"]}


def program(r, ctx):
    what = pick(r, ["hello", "hello", "hello", "add", "loop", "max", "fact"])
    lang = pick(r, list(PROGRAMS[what]))
    if what == "hello" and r.random() < 0.06:
        user, lang = say(r, ["{Write|write} {some |a little |}code{.|}", "{show|write} me {a|some} {program|code}",
            "{write|give me} a {small |}program", "code example", "hello world program", "an example of code"]), "Python"
    else:
        user = say(r, ASK_CODE[what], l={"Python": pick(r, ["Python", "python", "Python 3", "py"]), "JavaScript": pick(r,
            ["JavaScript", "javascript", "js", "JS"]), "bash": pick(r, ["bash", "Bash", "shell", "sh"]), "C++": pick(r, ["C++",
            "c++", "cpp"])}.get(lang, pick(r, [lang, lang.lower()])))
    mark, text = PROGRAMS[what][lang]
    return [Turn(user, f"```{mark}\n{text}\n```", "code", exact=True)]


def table(r, ctx):
    from gpu import CARDS, POPULAR
    if r.random() < 0.15:
        cards = ["RTX 3060", "RTX 3090", "RTX 4090", "RTX 5090"]
        rows = "\n".join(f"| {c} | {CARDS[c][0]} GB | {CARDS[c][1]} GB/s |" for c in cards)
        return [Turn(say(r, ["{Make|make|Show|show|Write|write|Give|give} {me |}a {markdown |}table{.| please|}",
            "a {markdown |}table", "{show|make} {me |}a table of {cards|GPUs|graphics cards|gpus}", "{gpu|card} table",
            "show me some markdown", "example of a table"]), "| card | memory | bandwidth |\n|---|---|---|\n" + rows, "tables")]
    if r.random() < 0.6:
        cards = r.sample(POPULAR, 2 + int(r.random() * 2))
        rows = "\n".join(f"| {c} | {CARDS[c][0]} GB | {CARDS[c][1]} GB/s |" for c in cards)
        return [Turn(say(r, ["{Make|make|Show|show|Write|write|Give|give} {me |}a table {of|with|for} <c>{.|}", "table of <c>",
            "compare <c>{ in a table|}", "a table with <c>"], c=", ".join(cards[:-1]) + " and " + cards[-1]),
            "| card | memory | bandwidth |\n|---|---|---|\n" + rows, "tables", exact=True, key="table" + "".join(cards))]
    n = 2 + int(r.random() * 9)
    rows = "\n".join(f"| {n} x {i} | {n * i} |" for i in range(1, 11))
    return [Turn(say(r, ["{Show|show|Write|write|Give|give} me the {multiplication table|times table} {of|for} <n>{.|}",
        "multiplication table of <n>", "the <n> times table", "times table for <n>", "table of <n>"], n=n),
        "| product | result |\n|---|---|\n" + rows, "tables")]
