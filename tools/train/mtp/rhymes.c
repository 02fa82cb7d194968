#include "rhymes.h"

#include <stdio.h>
#include <string.h>

static const char *const numbers[] = { "none", "one",   "two",   "three", "four", "five",
                                       "six",  "seven", "eight", "nine",  "ten" };
static const char *const kinds[] = {
    "red", "old", "green", "little", "white", "brown", "blue", "grey", "wild", "sleepy"
};
static const char *const animals[] = { "bird", "frog", "cat", "duck", "bear", "goat", "hen", "crow", "lamb", "owl" };
static const char *const places[] = { "on the wall", "in the tree",      "by the river", "on the roof",
                                      "in the barn", "under the bridge", "at the gate",  "on the hill" };
static const char *const ends[] = { "went home",    "fell asleep",    "ran away",
                                    "said goodbye", "found a friend", "had enough" };

uint32_t draw(uint64_t *luck, uint32_t n)
{
    *luck = *luck * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*luck >> 33) % n);
}

#define ANY(luck, list) (list)[draw(luck, sizeof(list) / sizeof(list)[0])]

static int line(char *out, size_t size, int n, const char *const words[4])
{
    const char *first = numbers[n];
    const char *s = n > 1 ? "s" : "";
    return snprintf(out, size, "%c%s %s %s%s sat %s. One %s %s %s. Now there %s %s.\n", first[0] - 'a' + 'A', first + 1,
                    words[0], words[1], s, words[2], words[0], words[1], words[3], n == 2 ? "is" : "are",
                    numbers[n - 1]);
}

void rhymes(uint64_t *luck, int *out, int n)
{
    int skip = (int)draw(luck, 400), made = 0;
    while (made < n) {
        const char *const words[4] = { ANY(luck, kinds), ANY(luck, animals), ANY(luck, places), ANY(luck, ends) };
        for (int left = 3 + (int)draw(luck, 8); left > 0 && made < n; left--) {
            char text[200];
            int length = line(text, sizeof text, left, words);
            for (int i = 0; i < length && made < n; i++)
                if (skip-- <= 0) out[made++] = (unsigned char)text[i];
        }
        if (made < n && skip <= 0) out[made++] = RHYME_END;
    }
}
