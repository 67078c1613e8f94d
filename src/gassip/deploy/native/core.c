/* A net on a graph, in C99: no allocation, no libc, no state.

       h_0 = X,   h_l = o_l(s * ReLU(h_{l-1}) + t)
                  h_l = o_l(s * (r - mean r) / sqrt(var r + 1e-5) + t),   r = ReLU(h_{l-1})
       o_l: y = Z_K + P_2 + bias,   Z_0 = s P_1,   Z_{k+1} = a S Z_k + b P_1
            y = Z_K + bias,         Z_0 = P_1,     Z_{k+1} = S Z_k + P_{k+2}     where M > 2

   with S of the norms of gassip/operations.py. One node is computed from its field alone: nodes in
   the order of their distance to it, so that what a step needs is always a first part of the list.
   Degrees are those of the whole graph, so the result equals that of a full pass.

   Structures are filled field by field: for an initialiser a compiler may call memset.

   Shapes: N nodes, E directed edges, d features that are read, F width of a layer, H heads,
   M matrices of a layer, C classes. */

#include <stddef.h>
#include <stdint.h>

#ifndef GASSIP_TYPES
#define GASSIP_TYPES

/* The edges are sorted by receiver: those to node i are indptr[i] .. indptr[i + 1] - 1. Each
   direction of an edge is an entry of its own, and no entry comes twice; self-loops are skipped.
   Features are those that a net reads, either dense or as rows of (index, value). */
typedef struct {
    int32_t nodes;
    const int32_t *indptr;   /* [N + 1] */
    const int32_t *sender;   /* [E] */
    const float *weight;     /* [E], or 0: every edge weighs 1 */
    const float *degree;     /* [N], or 0: the sums of the weights above */
    const float *x;          /* [N, d], or 0: sparse, as below */
    const int32_t *x_indptr; /* [N + 1] */
    const int32_t *x_index;
    const float *x_value;
    const int32_t *labels; /* [N] that count beside the net, -1: unknown; or 0: none is known */
} gassip_graph;

/* What an entry returns. */
enum { GASSIP_DONE = 0, GASSIP_WORK_TOO_SMALL = -1, GASSIP_NO_SUCH_NODE = -2, GASSIP_TWICE = -3 };

#endif

#ifndef GASSIP_DECLARATIONS

enum { NORM_NONE, NORM_GCN, NORM_ARMA, NORM_MEAN, NORM_ATTENTION };

/* How rows are passed on: Z_K by a norm, K, a, b and s. */
typedef struct {
    int32_t norm, steps;
    float scale, back, start;
} passing;

typedef struct {
    passing pass;
    int32_t matrices, in, out, heads;
    const float *weight;        /* [in, M F], or 0: */
    const int8_t *rounded;      /* [in, M F], times */
    const float *unit;          /* [M F] */
    const float *bias;          /* [F] */
    const float *attention;     /* [2, F] */
    const float *times, *shift; /* [in] each, the norm in front, or 0 */
    int32_t layer_norm; /* whether rows are standardised before times and shift */
} layer;

typedef struct {
    int32_t layers, read, classes;
    int32_t both_ways; /* whether the graph had every edge in both directions */
    const layer *layer;
    passing spread; /* of labels, where these count */
    float label_weight, prior_weight;
} net;

/* A node that is not in the graph: its number is N. */
typedef struct {
    const float *x; /* [d] */
    int32_t count;
    const int32_t *neighbour; /* [count] */
    const float *weight;      /* [count], or 0: all 1 */
} newcomer;

/* What is computed: all nodes, or the field of one, in the order of the distance to it. */
typedef struct {
    int32_t nodes;
    const int32_t *indptr, *sender;
    const float *weight, *degree;
    const int32_t *node;   /* [nodes], its number in the graph; 0: the same */
    const int32_t *within; /* [hops + 1] how many lie within so many hops; 0: all */
} part;

/* Memory of the caller, handed out from its start. */
typedef struct {
    char *at;
    size_t left;
    int failed;
} room;

static void *take(room *r, size_t count, size_t size) {
    size_t bytes = (count * size + 15) / 16 * 16;
    void *start = r->at;
    if (bytes > r->left) {
        r->failed = 1;
        return 0;
    }
    r->at += bytes;
    r->left -= bytes;
    return start;
}

static room room_of(void *work, size_t bytes) {
    size_t off = (16 - (uintptr_t)work % 16) % 16;
    room r;
    r.failed = 0;
    r.at = (char *)work + off;
    r.left = bytes > off ? bytes - off : 0;
    return r;
}

/* Elementary functions, to about one part in 10^7. */

static float float_of(uint32_t bits) {
    union { uint32_t bits; float value; } u;
    u.bits = bits;
    return u.value;
}

static uint32_t bits_of(float value) {
    union { uint32_t bits; float value; } u;
    u.value = value;
    return u.bits;
}

static float inverse_root(float x) {
    float y = float_of(0x5f3759dfu - (bits_of(x) >> 1));
    int k;
    for (k = 0; k < 4; k++) y *= 1.5f - 0.5f * x * y * y;
    return y;
}

static float exponential(float x) {
    float r, sum = 1.0f;
    int k;
    int32_t whole;
    if (x < -87.0f) return 0.0f;
    if (x > 88.0f) x = 88.0f;
    whole = (int32_t)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
    r = (x - (float)whole * 0.693359375f) + (float)whole * 2.12194440e-4f;
    for (k = 7; k > 0; k--) sum = 1.0f + sum * r / (float)k;
    return sum * float_of((uint32_t)(whole + 127) << 23);
}

static float logarithm(float x) {
    int32_t whole = (int32_t)(bits_of(x) >> 23) - 127;
    float m = float_of((bits_of(x) & 0x7fffffu) | 0x3f800000u), t, square, sum = 0.0f;
    int k;
    if (m > 1.41421356f) {
        m *= 0.5f;
        whole++;
    }
    t = (m - 1.0f) / (m + 1.0f);
    square = t * t;
    for (k = 11; k > 0; k -= 2) sum = sum * square + 2.0f / (float)k;
    return sum * t + (float)whole * 0.693147181f;
}

static void add(float *restrict out, float factor, const float *restrict row, int32_t width) {
    int32_t j;
    for (j = 0; j < width; j++) out[j] += factor * row[j];
}

static void add_rounded(float *restrict out, float factor, const int8_t *restrict row, int32_t width) {
    int32_t j;
    for (j = 0; j < width; j++) out[j] += factor * (float)row[j];
}

static void clear(float *out, int32_t width) {
    int32_t j;
    for (j = 0; j < width; j++) out[j] = 0.0f;
}

static float weight_of(const float *weight, int32_t e) { return weight ? weight[e] : 1.0f; }

static int32_t rows(const part *p, int32_t hops) { return p->within ? p->within[hops] : p->nodes; }

/* Products P = h W. */

static void add_row(const layer *l, int32_t column, float value, float *out) {
    size_t width = (size_t)l->matrices * (size_t)l->out, at = (size_t)column * width;
    if (l->rounded) add_rounded(out, value, l->rounded + at, (int32_t)width);
    else add(out, value, l->weight + at, (int32_t)width);
}

static void dense_row(const layer *l, const float *h, float *out) {
    int32_t c;
    for (c = 0; c < l->in; c++)
        if (h[c] != 0.0f) add_row(l, c, h[c], out);
}

/* A row of x as it is, or x times + shift where the first layer has these. */
static void dense_x(const layer *l, const float *x, float *out) {
    int32_t c;
    if (!l->times) dense_row(l, x, out);
    else
        for (c = 0; c < l->in; c++) add_row(l, c, x[c] * l->times[c] + l->shift[c], out);
}

static void row_of_x(const layer *l, const gassip_graph *g, const newcomer *new_one, int32_t node,
                     float *out) {
    int32_t e;
    if (node == g->nodes) dense_x(l, new_one->x, out);
    else if (g->x) dense_x(l, g->x + (size_t)node * (size_t)l->in, out);
    else {
        if (l->times) dense_row(l, l->shift, out);
        for (e = g->x_indptr[node]; e < g->x_indptr[node + 1]; e++)
            add_row(l, g->x_index[e],
                    g->x_value[e] * (l->times ? l->times[g->x_index[e]] : 1.0f), out);
    }
}

/* (h - mean) / sqrt(var + 1e-5) over its units, in place. */
static void standardise(float *h, int32_t width) {
    float mean = 0.0f, sum = 0.0f, factor;
    int32_t c;
    for (c = 0; c < width; c++) mean += h[c];
    mean /= (float)width;
    for (c = 0; c < width; c++) sum += (h[c] - mean) * (h[c] - mean);
    factor = inverse_root(sum / (float)width + 1e-5f);
    for (c = 0; c < width; c++) h[c] = (h[c] - mean) * factor;
}

static void activate(const layer *l, float *h) {
    int32_t c;
    for (c = 0; c < l->in; c++) h[c] = h[c] > 0.0f ? h[c] : 0.0f;
    if (l->layer_norm) standardise(h, l->in);
    for (c = 0; l->times && c < l->in; c++) h[c] = h[c] * l->times[c] + l->shift[c];
}

static void products(const layer *l, const gassip_graph *g, const newcomer *new_one, const part *p,
                     int32_t count, float *h, float *out) {
    int32_t i, j, width = l->matrices * l->out;
    for (i = 0; i < count; i++) {
        float *row = out + (size_t)i * (size_t)width;
        clear(row, width);
        if (h) {
            activate(l, h + (size_t)i * (size_t)l->in);
            dense_row(l, h + (size_t)i * (size_t)l->in, row);
        } else {
            row_of_x(l, g, new_one, p->node ? p->node[i] : i, row);
        }
        for (j = 0; l->rounded && j < width; j++) row[j] *= l->unit[j];
    }
}

/* Propagation: S of the norms, one factor for each node. */

static void factors(int32_t norm, const part *p, float *factor) {
    int32_t i;
    for (i = 0; i < p->nodes; i++) {
        float d = p->degree[i] + (norm == NORM_GCN ? 1.0f : 0.0f);
        if (!(d > 0.0f)) factor[i] = 0.0f;
        else factor[i] = norm == NORM_MEAN ? 1.0f / d : inverse_root(d);
    }
}

/* following = a S z + b P for the first `count` nodes; z is `times` what it is given as. */
static void step(const passing *o, const part *p, const float *factor, int32_t count,
                 const float *z, int32_t z_stride, float times, float back, const float *added,
                 int32_t stride, int32_t width, float *following) {
    int32_t i, e;
    for (i = 0; i < count; i++) {
        float *out = following + (size_t)i * (size_t)width, here = o->scale * times * factor[i];
        clear(out, width);
        if (back != 0.0f) add(out, back, added + (size_t)i * (size_t)stride, width);
        if (o->norm == NORM_GCN)
            add(out, here * factor[i], z + (size_t)i * (size_t)z_stride, width);
        for (e = p->indptr[i]; e < p->indptr[i + 1]; e++) {
            int32_t j = p->sender[e];
            float m = here * weight_of(p->weight, e) * (o->norm == NORM_MEAN ? 1.0f : factor[j]);
            if (j != i) add(out, m, z + (size_t)j * (size_t)z_stride, width);
        }
    }
}

/* Z_K into one of two arrays, which is returned. The products have one matrix, or several. */
static float *pass_on(const passing *o, const part *p, float *factor, int32_t hops,
                      const float *products_of, int32_t matrices, int32_t width, float *first,
                      float *second) {
    int32_t k, stride = matrices * width, each = matrices > 2;
    const float *z = products_of;
    factors(o->norm, p, factor);
    for (k = 0; k < o->steps; k++) {
        float *following = k % 2 ? second : first;
        step(o, p, factor, rows(p, hops - k - 1), z, k ? width : stride, k ? 1.0f : o->start,
             each ? 1.0f : o->back, products_of + (each ? (k + 1) * width : 0), stride, width,
             following);
        z = following;
    }
    return o->steps % 2 ? first : second;
}

static float leaky(float x) { return x > 0.0f ? x : 0.2f * x; }

/* out_i = sum_j a_ij P_j, a_ij ~ m_ij exp LeakyReLU(s_j + t_i), for one head of one node. */
static void attend(const part *p, int32_t i, const float *s, float t, int32_t heads,
                   const float *products_of, int32_t stride, int32_t width, float *out) {
    float top = leaky(s[(size_t)i * (size_t)heads] + t), sum, share;
    int32_t e, j;
    for (e = p->indptr[i]; e < p->indptr[i + 1]; e++) {
        float logit = leaky(s[(size_t)p->sender[e] * (size_t)heads] + t);
        if (logit > top && weight_of(p->weight, e) > 0.0f && p->sender[e] != i) top = logit;
    }
    sum = exponential(leaky(s[(size_t)i * (size_t)heads] + t) - top);
    add(out, sum, products_of + (size_t)i * (size_t)stride, width);
    for (e = p->indptr[i]; e < p->indptr[i + 1]; e++) {
        float m = weight_of(p->weight, e);
        if ((j = p->sender[e]) == i || !(m > 0.0f)) continue;
        share = m * exponential(leaky(s[(size_t)j * (size_t)heads] + t) - top);
        add(out, share, products_of + (size_t)j * (size_t)stride, width);
        sum += share;
    }
    for (j = 0; j < width; j++) out[j] /= sum;
}

static void attention(const layer *l, const part *p, int32_t hops, const float *products_of,
                      float *logits, float *out) {
    int32_t i, h, j, width = l->out / l->heads, senders = rows(p, hops);
    float *s = logits, *t = logits + (size_t)p->nodes * (size_t)l->heads;
    for (i = 0; i < senders; i++)
        for (h = 0; h < l->heads; h++) {
            const float *row = products_of + (size_t)i * (size_t)l->out + h * width;
            float a = 0.0f, b = 0.0f;
            for (j = 0; j < width; j++) {
                a += row[j] * l->attention[h * width + j];
                b += row[j] * l->attention[l->out + h * width + j];
            }
            s[(size_t)i * (size_t)l->heads + (size_t)h] = a;
            t[(size_t)i * (size_t)l->heads + (size_t)h] = b;
        }
    for (i = 0; i < rows(p, hops - 1); i++) {
        clear(out + (size_t)i * (size_t)l->out, l->out);
        for (h = 0; h < l->heads; h++)
            attend(p, i, s + h, t[(size_t)i * (size_t)l->heads + (size_t)h], l->heads,
                   products_of + h * width, l->out, width,
                   out + (size_t)i * (size_t)l->out + h * width);
    }
}

/* The whole net. */

static int32_t hops_of(const layer *l) { return l->pass.norm == NORM_NONE ? 0 : l->pass.steps; }

static int with_labels(const net *n, const gassip_graph *g) {
    return n->label_weight > 0.0f && g->labels != 0;
}

static int32_t reach(const net *n) {
    int32_t at, sum = 0;
    for (at = 0; at < n->layers; at++) sum += hops_of(n->layer + at);
    return sum;
}

static int32_t widest(const net *n) {
    int32_t at, most = n->classes;
    for (at = 0; at < n->layers; at++) {
        int32_t own = n->layer[at].matrices * n->layer[at].out;
        most = own > most ? own : most;
    }
    return most;
}

static int32_t most_heads(const net *n) {
    int32_t at, most = 1;
    for (at = 0; at < n->layers; at++)
        most = n->layer[at].heads > most ? n->layer[at].heads : most;
    return most;
}

/* What a pass needs besides the graph. */
typedef struct {
    float *products, *first, *second; /* [nodes, widest] */
    float *factor;                    /* [nodes] */
    float *logits;                    /* [2, nodes, heads] */
    float *prior;                     /* [C] */
} sheets;

static sheets sheets_of(const net *n, int32_t nodes, room *r) {
    size_t count = (size_t)nodes, cells = count * (size_t)widest(n);
    sheets made;
    made.products = take(r, cells, sizeof(float));
    made.first = take(r, cells, sizeof(float));
    made.second = take(r, cells, sizeof(float));
    made.factor = take(r, count, sizeof(float));
    made.logits = take(r, 2 * count * (size_t)most_heads(n), sizeof(float));
    made.prior = take(r, (size_t)n->classes, sizeof(float));
    return made;
}

/* h_l from the products; it lies in `first` or in `second`. */
static float *layer_out(const layer *l, const part *p, int32_t hops, const sheets *s) {
    int32_t i, j, stride = l->matrices * l->out, count = rows(p, hops - hops_of(l));
    float *out = s->first;
    if (l->pass.norm == NORM_ATTENTION)
        attention(l, p, hops, s->products, s->logits, out);
    else if (l->pass.norm != NORM_NONE)
        out = pass_on(&l->pass, p, s->factor, hops, s->products, l->matrices, l->out, s->first,
                      s->second);
    for (i = 0; i < count; i++) {
        const float *row = s->products + (size_t)i * (size_t)stride;
        float *y = out + (size_t)i * (size_t)l->out;
        for (j = 0; j < l->out; j++) {
            if (l->pass.norm == NORM_NONE) y[j] = row[j];
            if (l->matrices == 2) y[j] += row[l->out + j];
            y[j] += l->bias[j];
        }
    }
    return out;
}

/* The counts of the labels into `prior`, and one-hot rows into `products`; the number of labels. */
static int32_t read_labels(const net *n, const gassip_graph *g, const part *p, const sheets *s) {
    int32_t i, known = 0;
    clear(s->prior, n->classes);
    for (i = 0; i < g->nodes; i++)
        if (g->labels[i] >= 0) s->prior[g->labels[i]] += 1.0f, known++;
    for (i = 0; i < rows(p, n->spread.steps); i++) {
        int32_t node = p->node ? p->node[i] : i;
        float *row = s->products + (size_t)i * (size_t)n->classes;
        clear(row, n->classes);
        if (node < g->nodes && g->labels[node] >= 0) row[g->labels[node]] = 1.0f;
    }
    return known;
}

/* scores += w log(Z_K + e c): Z_K of the labels, c the shares of classes among them. */
static void add_labels(const net *n, const gassip_graph *g, const part *p, const sheets *s,
                       float *scores) {
    int32_t i, c, known = read_labels(n, g, p, s), count = rows(p, 0);
    const float *z = pass_on(&n->spread, p, s->factor, n->spread.steps, s->products, 1,
                             n->classes, s->first, s->second);
    for (i = 0; i < count; i++)
        for (c = 0; c < n->classes; c++) {
            size_t at = (size_t)i * (size_t)n->classes + (size_t)c;
            float share = (s->prior[c] + 1.0f) / (float)(known + n->classes);
            scores[at] += n->label_weight * logarithm(z[at] + n->prior_weight * share);
        }
}

static int forward(const net *n, const gassip_graph *g, const newcomer *one, const part *p, room *r,
                   float *scores) {
    sheets s = sheets_of(n, p->nodes, r);
    int32_t at, hops = reach(n);
    size_t cell, cells = (size_t)rows(p, 0) * (size_t)n->classes;
    float *h = 0;
    if (r->failed) return GASSIP_WORK_TOO_SMALL;
    for (at = 0; at < n->layers; at++) {
        products(n->layer + at, g, one, p, rows(p, hops), h, s.products);
        h = layer_out(n->layer + at, p, hops, &s);
        hops -= hops_of(n->layer + at);
    }
    for (cell = 0; cell < cells; cell++) scores[cell] = h[cell];
    if (with_labels(n, g)) add_labels(n, g, p, &s, scores);
    return GASSIP_DONE;
}

/* The field of a node. A new node, where there is one, has the number N. */

static int32_t place_among(const newcomer *one, int32_t node) {
    int32_t k;
    for (k = 0; one && k < one->count; k++)
        if (one->neighbour[k] == node) return k;
    return -1;
}

/* The senders to a node: entries first .. last - 1 of the graph or of the new node's neighbours,
   and the new node itself where `from_new` is 0 or more, its place among these. */
typedef struct {
    const int32_t *sender;
    const float *weight;
    int32_t first, last, from_new;
} senders;

static senders senders_to(const net *n, const gassip_graph *g, const newcomer *one, int32_t node) {
    senders made;
    made.first = 0, made.from_new = -1;
    if (node == g->nodes) {
        made.sender = one->neighbour, made.weight = one->weight, made.last = one->count;
        return made;
    }
    made.sender = g->sender, made.weight = g->weight;
    made.first = g->indptr[node], made.last = g->indptr[node + 1];
    if (n->both_ways) made.from_new = place_among(one, node);
    return made;
}

static float degree_of(const gassip_graph *g, const newcomer *one, const senders *s, int32_t node) {
    float sum = s->from_new >= 0 ? weight_of(one->weight, s->from_new) : 0.0f;
    int32_t e;
    if (node < g->nodes && g->degree) return sum + g->degree[node];
    for (e = s->first; e < s->last; e++)
        if (s->sender[e] != node) sum += weight_of(s->weight, e);
    return sum;
}

static void visit(int32_t node, int32_t *place, int32_t *list, int32_t *count) {
    if (place[node] >= 0) return;
    place[node] = *count;
    list[(*count)++] = node;
}

/* The nodes within `hops` of `start` in the order of their distance; the number of their edges. */
static size_t collect(const net *n, const gassip_graph *g, const newcomer *one, int32_t start,
                      int32_t hops, int32_t *place, int32_t *list, int32_t *within) {
    int32_t i, e, hop, from = 0, count = 0;
    size_t edges = 0;
    for (i = 0; i <= g->nodes; i++) place[i] = -1;
    visit(start, place, list, &count);
    within[0] = 1;
    for (hop = 1; hop <= hops; hop++) {
        for (i = from; i < within[hop - 1]; i++) {
            senders s = senders_to(n, g, one, list[i]);
            for (e = s.first; e < s.last; e++) visit(s.sender[e], place, list, &count);
            if (s.from_new >= 0) visit(g->nodes, place, list, &count);
            edges += (size_t)(s.last - s.first) + (s.from_new >= 0);
        }
        from = within[hop - 1];
        within[hop] = count;
    }
    return edges;
}

/* Edges and degrees of a field; nodes of the outermost hop receive nothing in time. */
static void fill(const net *n, const gassip_graph *g, const newcomer *one, int32_t inner,
                 const int32_t *place, const part *p, int32_t *indptr, int32_t *sender,
                 float *weight, float *degree) {
    int32_t i, e, at = 0;
    indptr[0] = 0;
    for (i = 0; i < p->nodes; i++) {
        senders s = senders_to(n, g, one, p->node[i]);
        degree[i] = degree_of(g, one, &s, p->node[i]);
        for (e = s.first; i < inner && e < s.last; e++) {
            sender[at] = place[s.sender[e]];
            weight[at++] = weight_of(s.weight, e);
        }
        if (i < inner && s.from_new >= 0) {
            sender[at] = place[g->nodes];
            weight[at++] = weight_of(one->weight, s.from_new);
        }
        indptr[i + 1] = at;
    }
}

static int one_node(const net *n, const gassip_graph *g, const newcomer *one, int32_t start,
                    void *work, size_t bytes, float *scores) {
    room r = room_of(work, bytes);
    int32_t hops = reach(n), *indptr, *sender;
    size_t nodes = (size_t)g->nodes + 1, edges;
    int32_t *place = take(&r, nodes, sizeof(int32_t)), *list = take(&r, nodes, sizeof(int32_t));
    int32_t *within;
    float *weight, *degree;
    part p;
    if (with_labels(n, g) && n->spread.steps > hops) hops = n->spread.steps;
    within = take(&r, (size_t)hops + 1, sizeof(int32_t));
    if (r.failed) return GASSIP_WORK_TOO_SMALL;
    edges = collect(n, g, one, start, hops, place, list, within);
    p.nodes = within[hops], p.node = list, p.within = within;
    p.indptr = indptr = take(&r, (size_t)p.nodes + 1, sizeof(int32_t));
    p.sender = sender = take(&r, edges, sizeof(int32_t));
    p.weight = weight = take(&r, edges, sizeof(float));
    p.degree = degree = take(&r, (size_t)p.nodes, sizeof(float));
    if (r.failed) return GASSIP_WORK_TOO_SMALL;
    fill(n, g, one, hops ? within[hops - 1] : 0, place, &p, indptr, sender, weight, degree);
    return forward(n, g, one, &p, &r, scores);
}

/* The entries; a generated file gives them its own names. */

/* Bytes of work that are enough for any entry on a graph with so many nodes and edges, and for a
   new node with so many neighbours. */
static size_t work_for(const net *n, size_t nodes, size_t edges, size_t neighbours) {
    size_t count = nodes + 1, width = 3 * (size_t)widest(n) + 2 * (size_t)most_heads(n) + 2;
    size_t lists = 3 * count + 1 + 2 * (edges + 2 * neighbours);
    size_t hops = (size_t)reach(n) + (size_t)n->spread.steps + 1;
    return 4 * (count * width + lists + hops + (size_t)n->classes) + 16 * 16;
}

static int all_nodes(const net *n, const gassip_graph *g, void *work, size_t bytes, float *scores) {
    room r = room_of(work, bytes);
    int32_t i;
    float *degree = take(&r, (size_t)g->nodes, sizeof(float));
    part p;
    if (r.failed) return GASSIP_WORK_TOO_SMALL;
    for (i = 0; i < g->nodes; i++) {
        senders s = senders_to(n, g, 0, i);
        degree[i] = degree_of(g, 0, &s, i);
    }
    p.nodes = g->nodes, p.indptr = g->indptr, p.sender = g->sender, p.weight = g->weight;
    p.degree = degree, p.node = 0, p.within = 0;
    return forward(n, g, 0, &p, &r, scores);
}

static int known_node(const net *n, const gassip_graph *g, int32_t node, void *work, size_t bytes,
                      float *scores) {
    if (node < 0 || node >= g->nodes) return GASSIP_NO_SUCH_NODE;
    return one_node(n, g, 0, node, work, bytes, scores);
}

static int new_node(const net *n, const gassip_graph *g, const newcomer *one, void *work,
                    size_t bytes, float *scores) {
    int32_t k;
    for (k = 0; k < one->count; k++) {
        if (one->neighbour[k] < 0 || one->neighbour[k] >= g->nodes) return GASSIP_NO_SUCH_NODE;
        if (place_among(one, one->neighbour[k]) != k) return GASSIP_TWICE;
    }
    return one_node(n, g, one, g->nodes, work, bytes, scores);
}

/* exp(s_c) / sum exp(s), in place. */
static void softmax(float *scores, int32_t classes) {
    float top = scores[0], sum = 0.0f;
    int32_t c;
    for (c = 1; c < classes; c++) top = scores[c] > top ? scores[c] : top;
    for (c = 0; c < classes; c++) sum += scores[c] = exponential(scores[c] - top);
    for (c = 0; c < classes; c++) scores[c] /= sum;
}

/* The features that are read, of one row as the user has it: row / sum |row| where rows are
   normalised, then the columns in `index` (0: all). */
static void prepare(const float *row, int32_t features, int normalise, const int32_t *index,
                    int32_t read, float *out) {
    float sum = 0.0f;
    int32_t c;
    for (c = 0; c < features; c++) sum += row[c] < 0.0f ? -row[c] : row[c];
    if (!normalise) sum = 1.0f;
    else if (sum < 1e-12f) sum = 1e-12f;
    for (c = 0; c < read; c++) out[c] = row[index ? index[c] : c] / sum;
}

#endif
