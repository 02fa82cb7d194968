"""Sums, differences, products, comparisons, counting, sorting."""
from grammar import Turn, held_out, pick, say

WORDS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
         "nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def word(n):
    if n < 20:
        return WORDS[n]
    return TENS[n // 10] + ("-" + WORDS[n % 10] if n % 10 else "")


ADD = ["<a> + <b>", "<a>+<b>", "<a> + <b> =", "<a>+<b>=", "<a> + <b> = ?", "<a>+<b>=?", "<a> plus <b>",
    "{what is|what's|whats} <a> + <b>?",
       "What is <a>+<b>?",
       "{What is|What's|whats|How much is|Calculate|Compute|Tell me|Work out|Solve|Can you do} <a> {+|plus|and} <b>{?|}",
       "{Add|add|sum} <a> and <b>{.|}", "What is the sum of <a> and <b>?",
       "{What do you get|What do I get} {when|if} {you|I} add <a> and <b>?",
       "<a> and <b> {makes what|is what|make how much|together}?", "What does <a> {plus|+} <b> {equal|make|give}?",
       "{Add|add} <b> to <a>",
       "{Can|Could} you {add|sum} <a> and <b>{ for me|}?", "sum of <a> and <b>", "What's <a> added to <b>?",
       "{How many|How much} {are|is} <a> {and|plus|+} <b>?", "the result of <a> + <b>", "If I add <b> to <a>, what do I get?",
       "Do you know what <a> + <b> is?", "{please |}{calculate|compute} <a>+<b>", "what would <a> plus <b> be?"]
SUB = ["<a> - <b>", "<a>-<b>", "<a> - <b> =", "<a>-<b>=", "<a> - <b> = ?", "<a> minus <b>", "{what is|what's|whats} <a> - <b>?",
       "What is <a>-<b>?",
       "{What is|What's|whats|How much is|Calculate|Compute|Tell me|Work out|Solve|Can you do} <a> {-|minus} <b>{?|}",
       "{Subtract|subtract|take} <b> from <a>{.|}", "{What is|What's} the difference {of|between} <a> and <b>?",
       "{Take|take} <b> away from <a>",
       "What is <a> {take away|less|without} <b>?", "What does <a> {minus|-} <b> {equal|make|give}?",
       "How much is left if I take <b> from <a>?",
       "{Can|Could} you subtract <b> from <a>{ for me|}?", "the result of <a> - <b>", "{please |}{calculate|compute} <a>-<b>",
       "what would <a> minus <b> be?"]
MUL = ["<a> * <b>", "<a>*<b>", "<a> x <b>", "<a>x<b>", "<a> * <b> =", "<a>*<b>=", "<a> times <b>", "What is <a>*<b>?",
       "{What is|What's|whats|How much is|Calculate|Compute|Tell me|Work out} <a> {x|times|*|multiplied by} <b>{?|}",
       "{Multiply|multiply} <a> {by|and|with} <b>{.|}", "What is the product of <a> and <b>?",
       "What does <a> {times|*} <b> {equal|make|give}?",
       "{Can|Could} you multiply <a> and <b>?", "<a> times <b> is what?"]
DIV = ["<a> / <b>", "<a>/<b>", "<a> / <b> =", "<a> divided by <b>",
    "{What is|What's|How much is|Calculate|Compute} <a> {/|divided by|over} <b>{?|}",
       "{Divide|divide} <a> by <b>{.|}", "How many times does <b> {go|fit} into <a>?", "What is <a>/<b>?"]
PEOPLE = "Anna Tom Ben Maria Peter Lisa Paul Sara Jack Mia She He My-brother Max".replace("-", " ").split()
THINGS = ("apples pears books coins stones cards cookies stickers pencils shells marbles eggs flowers stamps balls tickets buttons keys "
          "oranges candies toys carrots").split()


def _key(op, a, b):
    return f"{op}:{min(a, b)}:{max(a, b)}" if op in "+*" else f"{op}:{a}:{b}"


def trained(op, a, b, eval_=False):
    """Whether this pair may be shown: held-out pairs only to the examiner."""
    return held_out(_key(op, a, b)) == eval_


def solved(op, a, b):
    c = a + b if op == "+" else a - b if op == "-" else a * b if op == "x" else a // b
    return f"{a} {op} {b} = {c}."


def negative(r, ctx):
    a, b = -1 - int(r.random() * 30), int(r.random() * 30)
    op = "+" if r.random() < 0.7 else "-"
    c = a + b if op == "+" else a - b
    ctx.last = c
    user = say(r, ["<a> <o> <b>", "<a><o><b>", "{What is|What's|How much is} <a> <o> <b>?", "minus <m> <w> <b>"], a=a, o=op, b=b,
        m=-a, w="plus" if op == "+" else "minus")
    return [Turn(user, f"{a} {op} {b} = {c}.", "negative numbers", _key(op, a, b))]


def equation(r, ctx):
    """Is 2 + 2 = 5? The answer is the sum: a yes or no before it would have to be known before it was computed."""
    a, b = _two(r)
    if held_out(_key("+", a, b)):
        return equation(r, ctx)
    c = a + b if r.random() < 0.5 else max(0, a + b + pick(r, [-2, -1, 1, 2, 10, -10]))
    user = say(r, ["{Is|is} <a>{+| + }<b>{=| = }<c>?", "Is <a> {plus|+} <b> {equal to |}<c>?",
        "{is it true that|right or wrong:|is it correct that|true or false:} <a> + <b> = <c>{?|}",
        "Does <a> + <b> {equal|make|give} <c>?", "<a>+<b>=<c>, right?", "<a> + <b> = <c>?", "<a>+<b>=<c>"], a=a, b=b, c=c)
    return [Turn(user, solved("+", a, b), "equations", f"eq {a} {b} {c}")]


def lone(r, ctx):
    n = int(r.random() * (1000 if r.random() < 0.5 else 30))
    return [Turn(pick(r, [str(n), f"{n}.", f"{n}!", f"the number {n}", f"number {n}"]),
        f"That is the number {n}. Shall I add something to it?", "numbers")]


def _two(r):
    how = r.random()
    if how < 0.2:
        return int(r.random() * 10), int(r.random() * 10)
    if how < 0.4:
        a, b = int(r.random() * 100), int(r.random() * 10)
        return (a, b) if r.random() < 0.5 else (b, a)
    return int(r.random() * 100), int(r.random() * 100)


def add(r, ctx):
    a, b = _two(r)
    spell = r.random() < 0.06
    user = say(r, ADD, a=word(a) if spell else a, b=word(b) if spell else b)
    ctx.last = a + b
    return [Turn(user, solved("+", a, b), "sum", _key("+", a, b))]


def sub(r, ctx):
    a, b = _two(r)
    if a < b and r.random() < 0.6:
        a, b = b, a
    spell = r.random() < 0.06
    user = say(r, SUB, a=word(a) if spell else a, b=word(b) if spell else b)
    ctx.last = a - b
    return [Turn(user, solved("-", a, b), "difference", _key("-", a, b))]


def big(r, ctx):
    """Up to three digits."""
    a, b = 100 + int(r.random() * 900), int(r.random() * (1000 if r.random() < 0.7 else 100))
    if r.random() < 0.3:
        a, b = b, a
    op = "+" if r.random() < 0.55 else "-"
    if op == "-" and a < b:
        a, b = b, a
    ctx.last = a + b if op == "+" else a - b
    return [Turn(say(r, ADD if op == "+" else SUB, a=a, b=b), solved(op, a, b), "three digits", _key(op, a, b))]


def three(r, ctx):
    a, b, c = (1 + int(r.random() * (30 if r.random() < 0.5 else 10)) for _ in range(3))
    return [Turn(say(r, ["<a> + <b> + <c>", "<a>+<b>+<c>",
        "{What is|What's|How much is|calculate} <a> {+|plus} <b> {+|plus} <c>{?|}", "<a>+<b>+<c>=", "add <a>, <b> and <c>",
        "sum of <a>, <b> and <c>", "<a> plus <b> plus <c>", "add these{ numbers|}: <a>, <b>, <c>", "add up <a>, <b> and <c>",
        "sum: <a> <b> <c>", "the total of <a>, <b> and <c>"], a=a, b=b, c=c),
                 f"{a} + {b} + {c} = {a + b + c}.", "sum of three", "3:" + ":".join(map(str, sorted((a, b, c)))))]


def story_sum(r, ctx):
    a, b = 1 + int(r.random() * 60), 1 + int(r.random() * 39)
    thing = pick(r, THINGS)
    if r.random() < 0.5:
        user = say(r, ["I have <a> <t> and {get|buy|find|am given} <b> more. How many {<t> |}{do I have|are there}{ now|}?",
                       "If I have <a> <t> and you give me <b>, how many <t> do I have?",
                       "If I have <a> <t> and you have <b>, how many do we have{ together|}?",
                       "I have <a> <t> and {my friend|she|he|my brother|my sister} has <b>. How many {<t> |}do we have{ together|}?",
                       "<x> has <a> <t> and <y> has <b>. How many {<t> |}do they have{ together|}?",
                       "<x> has <a> <t>. <y> has <b> <t>. How many in total?",
                       "There are <a> <t> in a box and <b> <t> on the table. How many <t> are there?",
                       "I had <a> <t>. I got <b> more. How many now?"], a=a, b=b, t=thing, x=pick(r, PEOPLE), y=pick(r, PEOPLE))
        return [Turn(user, f"{a} + {b} = {a + b}. That makes {a + b} {thing}.", "word sum",
                     _key("+", a, b), exact=True)]
    a, b = max(a, b), min(a, b)
    user = say(r, ["I have <a> <t> and {lose|eat|sell|give away} <b>. How many {<t> |}{do I have|are left}?",
                   "If I have <a> <t> and I give you <b>, how many <t> are left?",
                   "I had <a> <t>. <b> are gone. How many are left?",
                   "There were <a> <t> and someone took <b>. How many <t> are left?",
                   "<x> has <a> <t> and gives <b> to <y>. How many {<t> |}are left?",
                   "<x> had <a> <t> and {ate|lost|sold} <b>. How many {<t> |}are left?"], a=a, b=b, t=thing, x=pick(r, PEOPLE),
                   y=pick(r, PEOPLE))
    return [Turn(user, f"{a} - {b} = {a - b}. {a - b} {thing} are left.", "word sum", _key("-", a, b), exact=True)]


def mul(r, ctx):
    if r.random() < 0.12:
        a = 1 + int(r.random() * 12)
        user = say(r, ["{What is|What's|whats} <a> squared?", "the square of <a>", "What is the square of <a>?"], a=a)
        ctx.last = a * a
        return [Turn(user, solved("x", a, a), "product")]
    a, b = int(r.random() * 13), int(r.random() * 13)
    if r.random() < 0.2:
        a, b = 13 + int(r.random() * 87), 2 + int(r.random() * 8)
        if a % 10 == 0:
            a += 1
        t = a - a % 10
        if held_out(_key("+", t * b, a % 10 * b)):  # a sum that the answer would give away
            return mul(r, ctx)
        ctx.last = a * b
        user = say(r, MUL, a=a, b=b) if r.random() < 0.7 else say(r, MUL, a=b, b=a)
        steps = f"{a} x {b} = {t} x {b} + {a % 10} x {b} = {t * b} + {a % 10 * b} = {a * b}."
        return [Turn(user, steps, "product", _key("*", a, b), must=(f"= {a * b}.",))]
    ctx.last = a * b
    return [Turn(say(r, MUL, a=a, b=b), solved("x", a, b), "product")]


def div(r, ctx):
    a, b = 1 + int(r.random() * 12), 1 + int(r.random() * 12)
    if r.random() < 0.05:
        return [Turn(say(r, DIV, a=a, b=0), "Nothing can be divided by zero.", "division")]
    ctx.last = a
    rest = int(r.random() * b) if r.random() < 0.3 else 0
    if rest:
        return [Turn(say(r, DIV, a=a * b + rest, b=b), f"{a * b + rest} / {b} = {a}, remainder {rest}.", "division")]
    return [Turn(say(r, DIV, a=a * b, b=b), solved("/", a * b, b), "division")]


def huge(r, ctx):
    a = int(10 ** (3 + r.random() * 6)) if r.random() < 0.6 else 1000 * (1 + int(r.random() * 9)) + (int(r.random() * 1000)
        if r.random() < 0.5 else 0)
    b = int(10 ** (1 + r.random() * 7)) if r.random() < 0.6 else 1 + int(r.random() * 100)
    a, b = (a, b) if a > b else (b, a)
    if r.random() < 0.3:
        a, b, t = 13 + int(r.random() * 900), 13 + int(r.random() * 900), MUL
    elif r.random() < 0.3:
        if r.random() < 0.5:
            a, b = 2 + int(r.random() * 200), 2 + int(r.random() * 50)
        return [Turn(say(r, ["{What is|What's} the square root of <a>?", "sqrt(<a>)", "<b> to the power of <a>",
            "What is {sin|cos|tan|log} of <b>?",
                             "What is <b>% of <a>?", "{what is|} <b> percent of <a>", "Solve x^2 + <b>x = <a>", "integrate x^<b>",
                             "<d>.<e> + <d>", "what is <d>.<e> {times|plus|minus|x} <e>?", "<b> + <d> * <e>", "(<d> + <e>) * <b>",
                             "1/<d> + 1/<e>", "<d>^<e>", "is <a> {prime|a prime number}?", "{What is|} the factorial of <b>"], a=a,
                             b=b, d=2 + int(r.random() * 20), e=2 + int(r.random() * 8)),
                     "That is beyond me: I only add, subtract, multiply and divide small whole numbers.", "too hard",
                     must=("beyond me",))]
    else:
        t = pick(r, [ADD, SUB, MUL, DIV])
    return [Turn(say(r, t, a=a, b=b), "Those numbers are too big for me: I only do sums of numbers up to three digits, and small "
                 "products.", "too hard", must=("too big for me",))]


def chain(r, ctx):
    """A sum, and then 'and plus 5?'."""
    first = add(r, ctx) if r.random() < 0.7 else mul(r, ctx) if r.random() < 0.4 else sub(r, ctx)
    turns, n = list(first), ctx.last
    for _ in range(1 + int(r.random() * 3)):
        how = r.random()
        if n < 0 or n > 200:
            break
        if how < 0.45:
            b = 1 + int(r.random() * (99 if r.random() < 0.5 else 10))
            user = say(r, ["{and |}plus <b>?", "{And|and} plus <b>{?|}", "now add <b>", "add <b>{ to that| more|}", "and <b> more?",
                "+ <b>", "+<b>",
                           "plus <b>", "and if I add <b>?", "what if you add <b>{ to it| to that|}?", "plus another <b>?",
                           "Now plus <b>{.|}",
                           "and + <b>?", "then plus <b>"], b=b)
            op, c = "+", n + b
        elif how < 0.8:
            b = 1 + int(r.random() * min(max(n, 1), 99))
            user = say(r, ["{and |}minus <b>?", "{And|and} minus <b>{?|}", "now subtract <b>", "subtract <b>{ from that|}", "- <b>",
                "-<b>", "minus <b>",
                           "take away <b>", "and if I take away <b>?", "less <b>?", "Now minus <b>{.|}", "and <b> less?"], b=b)
            op, c = "-", n - b
        else:
            b = 2 + int(r.random() * 8) if 0 <= n <= 12 else 2
            if n > 50:
                break
            user = say(r, ["{and |}times <b>?", "{multiply|and multiply|now multiply} {that|it} by <b>", "x <b>", "* <b>",
                "times <w>", "times <b>", "and times <b>?", "now times <w>", "and times <w>?"] +
                       (["now {double it|double that}", "double it", "and doubled?", "double that", "twice that"] if b == 2
                       else ["and multiplied by <b>?"]), b=b, w=word(b))
            op, c = "x", n * b
        turns.append(Turn(user, solved(op, n, b), "follow-up sum", _key("*" if op == "x" else op, n, b)))
        n = c
    ctx.last = n
    if r.random() < 0.2:
        a, b = _two(r)
        turns.append(Turn(say(r, ["and <a>+<b>?", "and <a> + <b>?", "what about <a> plus <b>?", "and what is <a> + <b>?",
            "now <a> + <b>", "and <a> plus <b>?"],
                              a=a, b=b), solved("+", a, b), "sum", _key("+", a, b)))
    return turns


def near(r, ctx):
    n = int(r.random() * (100 if r.random() < 0.8 else 300))
    how = int(r.random() * 7)
    if how == 0:
        return [Turn(say(r, ["{What|Which} number {comes|is} {after|next after} <n>?", "What comes after <n>?",
            "{the |}next number after <n>", "number after <n>",
                             "What is one more than <n>?"], n=n), f"After {n} comes {n + 1}.", "counting")]
    if how == 1:
        n += 1
        return [Turn(say(r, ["{What|Which} number {comes|is} before <n>?", "What comes before <n>?", "number before <n>",
            "What is one less than <n>?"], n=n),
                     f"Before {n} comes {n - 1}.", "counting")]
    if how == 2:
        return [Turn(say(r, ["Is <n> {even|odd|even or odd|odd or even}?", "{Even or odd|Odd or even}: <n>?",
            "<n>: {odd or even|even or odd}?", "is the number <n> even?",
                             "is <n> an {even|odd} number?"], n=n),
                     f"{n} is {'odd' if n % 2 else 'even'}.", "counting")]
    if how == 3:
        n %= 100
        return [Turn(say(r, ["{What is|What's|} {the double of|double|twice} <n>{?|}", "Double <n>", "twice <n>?"], n=n),
            f"2 x {n} = {2 * n}.", "counting")]
    if how == 4:
        n = n % 100 * 2
        return [Turn(say(r, ["{What is|What's|} {half of|the half of} <n>{?|}", "Half of <n>", "halve <n>"], n=n),
            f"Half of {n} is {n // 2}.", "counting")]
    if how == 5:
        n %= 100
        return [Turn(say(r, ["{How do you|How to|How do I} {write|spell} <n> {in words|as a word|in letters}?",
            "Write <n> {in words|as a word}", "<n> in words",
                             "spell the number <n>"], n=n), f"{n} is written {word(n)}.", "counting")]
    if r.random() < 0.4:
        k = pick(r, [3, 4, 5, 10])
        n = (1 + int(r.random() * 12)) * k
        name = {3: "third", 4: "quarter", 5: "fifth", 10: "tenth"}[k]
        return [Turn(say(r, ["{What is|What's|} a <w> of <n>{?|}", "one <w> of <n>"], w=name, n=n), f"A {name} of {n} is {n // k}.",
            "counting")]
    n %= 100
    return [Turn(say(r, ["{What number is|What is} <w>{ in digits|}?", "{Write|write} <w> {in digits|as a number}", "<w> in digits",
        "<w> as a number"], w=word(n)),
                 f"{word(n).capitalize()} is {n}.", "counting")]


def count(r, ctx):
    how = int(r.random() * 5)
    if how == 0:
        n = 3 + int(r.random() * 18)
        if r.random() < 0.3:
            return [Turn(say(r, ["Count {up |}to <w>{.|}", "{Can|Please|Will} you count to <w>?", "please count to <w>",
                "count from one to <w>", "{Say|List} the numbers from one to <w>"], w=word(n)), ", ".join(str(i) for i in range(1,
                n + 1)) + ".", "counting")]
        return [Turn(say(r, ["Count {up |}to <n>{.|}", "{Can|Could|Please|Will} you count to <n>?", "count from {1|one} to <n>",
            "{Say|List|Write} the numbers from 1 to <n>{.|}",
                             "please count to <n>", "numbers from 1 to <n>", "let's count to <n>", "Count to <n> for me"], n=n),
                     ", ".join(str(i) for i in range(1, n + 1)) + ".", "counting")]
    if how == 1:
        a = int(r.random() * 60)
        b = a + 2 + int(r.random() * 12)
        return [Turn(say(r, ["Count from <a> to <b>{.|}", "{Say|List|Write} the numbers from <a> to <b>{.|}",
            "{Can you |please |}count from <a> up to <b>",
                             "numbers from <a> to <b>"], a=a, b=b), ", ".join(str(i) for i in range(a, b + 1)) + ".", "counting")]
    if how == 2:
        n = 3 + int(r.random() * 13)
        return [Turn(say(r, ["Count {down|backwards} from <n>{.|}", "{Can you |please |}count {down|backwards} from <n>{ to 1|}",
            "countdown from <n>",
                             "Count down from <n> to 1", "start a countdown from <n>"], n=n), ", ".join(str(i) for i in range(n, 0,
                             -1)) + ".", "counting")]
    if how == 3:
        s = pick(r, [2, 2, 3, 5, 10])
        name = {2: "twos", 3: "threes", 5: "fives", 10: "tens"}[s]
        n = s * (4 + int(r.random() * 7))
        return [Turn(say(r, ["Count {by|in} {<s>|<s>s|<w>} {up |}to <n>{.|}", "{Can you |please |}count by <w> to <n>"], s=s,
            w=name, n=n),
                     ", ".join(str(i) for i in range(s, n + 1, s)) + ".", "counting")]
    n = 2 + int(r.random() * 8)
    even = r.random() < 0.5
    return [Turn(say(r, ["{Say|List|Write|Name|Give me|What are} the first <n> {kind} numbers{.|}".replace("{kind}", "even" if even
        else "odd"),
                         "first <n> %s numbers" % ("even" if even else "odd")], n=n),
                 ", ".join(str(i) for i in range(2 if even else 1, 2 * n + 1, 2)) + ".", "counting")]


def compare(r, ctx):
    a, b = _two(r)
    key = _key("<", min(a, b), max(a, b))
    how = r.random()
    if how < 0.4:
        user = say(r, ["{Which|What|Which number|Which one} is {bigger|larger|greater|more|higher}, <a> or <b>?",
            "{Is|is} <a> or <b> {bigger|larger|greater|more}?",
                       "{bigger|larger}: <a> or <b>?", "<a> or <b>, which is {bigger|larger|more|greater}?",
                       "{What is|What's} {the bigger of|the larger of|bigger,} <a> {and|or} <b>?",
                       "what is more, <a> or <b>", "max of <a> and <b>"], a=a, b=b)
        answer = f"{a} and {b} are equal." if a == b else f"{max(a, b)} is bigger than {min(a, b)}."
    elif how < 0.7:
        user = say(r, ["{Which|What|Which number|Which one} is {smaller|less|lower}, <a> or <b>?",
            "{Is|is} <a> or <b> {smaller|less}?", "{smaller|less}: <a> or <b>?",
                       "<a> or <b>, which is {smaller|less}?", "{What is|What's} the smaller of <a> {and|or} <b>?",
                       "min of <a> and <b>"], a=a, b=b)
        answer = f"{a} and {b} are equal." if a == b else f"{min(a, b)} is smaller than {max(a, b)}."
    elif how < 0.85:
        user = say(r, ["Is <a> {bigger|larger|greater|more} than <b>?", "is <a> > <b>?", "<a> > <b>?"], a=a, b=b)
        answer = (f"Yes, {a} is bigger than {b}." if a > b else f"No, {a} and {b} are equal." if a == b
            else f"No, {a} is smaller than {b}.")
    else:
        user = say(r, ["Is <a> {smaller|less|lower} than <b>?", "is <a> < <b>?", "<a> < <b>?"], a=a, b=b)
        answer = (f"Yes, {a} is smaller than {b}." if a < b else f"No, {a} and {b} are equal." if a == b
            else f"No, {a} is bigger than {b}.")
    return [Turn(user, answer, "comparison", key)]


def sort(r, ctx):
    n = 3 + int(r.random() * 3)
    top = 10 if r.random() < 0.4 else 100
    ns = r.sample(range(top), n)
    text = pick(r, [", ", " ", ", "]).join(map(str, ns))
    if r.random() < 0.3:
        k = ns[:3]
        big_ = r.random() < 0.5
        w = pick(r, ["biggest", "largest", "maximum"] if big_ else ["smallest", "lowest", "minimum"])
        user = say(r, ["{Which|What} is the <w>{ number|} of <x>, <y> and <z>?", "<w> of <x>, <y>, <z>",
            "{Which|What} is {the |}<w>: <x>, <y> or <z>?"], w=w, x=k[0], y=k[1], z=k[2])
        return [Turn(user, f"The {'biggest' if big_ else 'smallest'} is {max(k) if big_ else min(k)}.", "sorting",
            "sort:" + str(k))]
    if r.random() < 0.75:
        user = say(r, ["Sort {these numbers: |these: |the numbers |}<t>{.|}", "{Put|Bring} <t> in order{.|}",
            "{Can you|Please|could you} sort <t>{?|}",
                       "Sort <t> {ascending|from small to big|in ascending order}", "sort: <t>", "order these numbers: <t>"],
                       t=text)
        return [Turn(user, "Sorted: " + ", ".join(map(str, sorted(ns))) + ".", "sorting", "sort:" + str(sorted(ns)))]
    user = say(r, ["Sort <t> {descending|in descending order|from big to small|in reverse|backwards}{.|}",
        "{Can you|Please} sort <t> {descending|from big to small}{?|}"], t=text)
    return [Turn(user, "Sorted: " + ", ".join(map(str, sorted(ns, reverse=True))) + ".", "sorting", "sort:" + str(sorted(ns)))]
