/* The generic WebAssembly module: core.c, and a net that is read from bytes.

   python tools/build_wasm.py        writes gassip.wasm beside this file (clang and wasm-ld)

   A net's bytes, as net_bytes.py writes them: words of four bytes, little-endian,

       magic, layers, read, classes, both_ways, features, normalise, indexed,
       spread (norm, steps, scale, back, start), label_weight, prior_weight,
       of each layer: passing (norm, steps, scale, back, start), matrices, in, out, heads, flags,
       of each layer: weight, [unit,] bias, [attention,] [times, shift,]
       [feature_index]

   Every array begins at a multiple of four bytes. The bytes stay where they are while the net is
   used; an instance of the module holds one net. What does not fit is refused with a status. */

#include "core.c"

#define EXPORT(name) __attribute__((export_name(name)))

enum { MAGIC = 0x324e4e47, MOST_LAYERS = 16, HEAD = 15, PER_LAYER = 10, MOST = 1 << 24 };
enum { ROUNDED = 1, ATTENTION = 2, NORMED = 4, LAYER_NORM = 8, FLAGS = 15 };
enum { DAMAGED = -4, NOT_OPEN = -5 };

static layer table[MOST_LAYERS];
static net opened;
static int32_t features, normalise;
static const int32_t *feature_index;

/* The rest of the bytes. */
typedef struct {
    const char *at;
    uint32_t left;
    int damaged;
} cursor;

static const void *next(cursor *c, uint64_t count, uint32_t size) {
    uint64_t bytes = (count * size + 3) / 4 * 4;
    const void *start = c->at;
    if (bytes > c->left) {
        c->damaged = 1;
        return 0;
    }
    c->at += bytes;
    c->left -= (uint32_t)bytes;
    return start;
}

static float float_at(const int32_t *word) { return float_of((uint32_t)*word); }

static passing passing_at(const int32_t *word) {
    passing p;
    p.norm = word[0], p.steps = word[1];
    p.scale = float_at(word + 2), p.back = float_at(word + 3), p.start = float_at(word + 4);
    return p;
}

static int within(int32_t value, int32_t least, int32_t most) {
    return value >= least && value <= most;
}

/* Layer norm stands behind a layer, and has times and shift. */
static int flags_fit(int32_t flags, int32_t at) {
    return within(flags, 0, FLAGS) && (!(flags & LAYER_NORM) || (at && flags & NORMED));
}

static int fits(const layer *l, int32_t width) {
    return within(l->pass.norm, NORM_NONE, NORM_ATTENTION) && within(l->pass.steps, 0, 64) &&
           within(l->matrices, 1, 65) && within(l->out, 1, MOST) && l->in == width &&
           within(l->heads, 1, l->out) && l->out % l->heads == 0;
}

static int head_fits(const int32_t *head) {
    return head[0] == MAGIC && within(head[1], 1, MOST_LAYERS) && within(head[2], 1, MOST) &&
           within(head[3], 1, MOST) && within(head[5], 1, MOST) &&
           within(head[8], NORM_NONE, NORM_MEAN) && within(head[9], 0, 64);
}

/* The sizes of the layers; the width of the last. */
static int32_t sizes(cursor *c, int32_t layers, int32_t *flags) {
    int32_t at, width = opened.read;
    for (at = 0; at < layers; at++) {
        layer *l = table + at;
        const int32_t *word = next(c, PER_LAYER, 4);
        if (!word) return 0;
        l->pass = passing_at(word);
        l->matrices = word[5], l->in = word[6], l->out = word[7], l->heads = word[8];
        flags[at] = word[9];
        if (!fits(l, width) || !flags_fit(flags[at], at)) c->damaged = 1;
        if (c->damaged) return 0;
        width = l->out;
    }
    return width;
}

static void arrays(cursor *c, layer *l, int32_t flags) {
    uint64_t columns = (uint64_t)l->matrices * (uint64_t)l->out, cells = (uint64_t)l->in * columns;
    l->weight = flags & ROUNDED ? 0 : next(c, cells, 4);
    l->rounded = flags & ROUNDED ? next(c, cells, 1) : 0;
    l->unit = flags & ROUNDED ? next(c, columns, 4) : 0;
    l->bias = next(c, (uint64_t)l->out, 4);
    l->attention = flags & ATTENTION ? next(c, 2 * (uint64_t)l->out, 4) : 0;
    l->times = flags & NORMED ? next(c, (uint64_t)l->in, 4) : 0;
    l->shift = flags & NORMED ? next(c, (uint64_t)l->in, 4) : 0;
    l->layer_norm = flags & LAYER_NORM;
    if (l->pass.norm == NORM_ATTENTION && !l->attention) c->damaged = 1;
}

static int index_fits(void) {
    int32_t c;
    for (c = 0; feature_index && c < opened.read; c++)
        if (!within(feature_index[c], 0, features - 1)) return 0;
    return feature_index || opened.read == features;
}

EXPORT("open_net") int open_net(const void *bytes, uint32_t length) {
    cursor c;
    int32_t at, flags[MOST_LAYERS];
    const int32_t *head;
    c.at = bytes, c.left = length, c.damaged = 0;
    opened.layers = 0;
    head = next(&c, HEAD, 4);
    if (!head || !head_fits(head)) return DAMAGED;
    opened.read = head[2], opened.classes = head[3], opened.both_ways = head[4];
    features = head[5], normalise = head[6];
    opened.layer = table, opened.spread = passing_at(head + 8);
    opened.label_weight = float_at(head + 13), opened.prior_weight = float_at(head + 14);
    if (sizes(&c, head[1], flags) != opened.classes) return DAMAGED;
    for (at = 0; at < head[1]; at++) arrays(&c, table + at, flags[at]);
    feature_index = head[7] ? next(&c, (uint64_t)opened.read, 4) : 0;
    if (c.damaged || c.left || !index_fits()) return DAMAGED;
    opened.layers = head[1];
    return GASSIP_DONE;
}

EXPORT("num_features") int32_t num_features(void) { return features; }
EXPORT("num_read") int32_t num_read(void) { return opened.read; }
EXPORT("num_classes") int32_t num_classes(void) { return opened.classes; }

EXPORT("work_bytes") uint32_t work_bytes(uint32_t nodes, uint32_t edges, uint32_t neighbours) {
    return work_for(&opened, nodes, edges, neighbours);
}

EXPORT("scores") int scores_of(const gassip_graph *g, void *work, uint32_t bytes, float *scores) {
    return opened.layers ? all_nodes(&opened, g, work, bytes, scores) : NOT_OPEN;
}

EXPORT("scores_node")
int scores_node(const gassip_graph *g, int32_t node, void *work, uint32_t bytes, float *scores) {
    return opened.layers ? known_node(&opened, g, node, work, bytes, scores) : NOT_OPEN;
}

EXPORT("scores_new_node")
int scores_new_node(const gassip_graph *g, const float *x, int32_t count, const int32_t *neighbour,
                    const float *weight, void *work, uint32_t bytes, float *scores) {
    newcomer one;
    one.x = x, one.count = count, one.neighbour = neighbour, one.weight = weight;
    return opened.layers ? new_node(&opened, g, &one, work, bytes, scores) : NOT_OPEN;
}

EXPORT("prepare") void prepare_row(const float *row, float *out) {
    prepare(row, features, normalise, feature_index, opened.read, out);
}

EXPORT("probabilities") void probabilities(float *scores) { softmax(scores, opened.classes); }
