// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-2 trained by plain loops in C, as Karpathy's llm.c does on CPUs: f32,
// OpenMP, no library, each layer's forward and backward side by side. What a
// person writes by hand, beside what our compiler makes.
//
//   gpt2 WEIGHTS TOKENS STEPS BATCH LR LOG
//
// WEIGHTS: samples.py's, .gpt2; TOKENS: uint16; LOG: a JSON line a step.
// AdamW with betas 0.9, 0.95 and weight decay 0.1, clipping at 1.0.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TILE 8 // rows of a product that share a pass over the weights

typedef struct {
  int layers, width, heads, vocab, length;
} Shape;

// Parameters of one layer and of the model, or their gradients: [out, in].
typedef struct {
  float *norm1, *norm1b, *qkv, *qkvb, *proj, *projb, *norm2, *norm2b, *up, *upb,
      *down, *downb;
} Layer;
typedef struct {
  float *tokens, *places, *norm, *normb;
  Layer *layer;
  float *all;
  size_t count;
} Weights;

// What the backward pass reads of a layer.
typedef struct {
  float *in, *norm1, *mean1, *rstd1, *qkv, *weights, *heads, *mid, *norm2,
      *mean2, *rstd2, *up, *gelu;
} Saved;

static void *take(size_t floats) {
  void *memory = calloc(floats, sizeof(float));
  if (!memory) {
    fputs("gpt2: error: out of memory\n", stderr);
    exit(1);
  }
  return memory;
}

static float *next(float **at, size_t count) {
  float *here = *at;
  *at += count;
  return here;
}

// In the order of the file.
static Weights makeWeights(Shape s) {
  size_t c = s.width, each = 12 * c * c + 13 * c;
  Weights w = {0};
  w.count = (size_t)(s.vocab + s.length) * c + s.layers * each + 2 * c;
  float *at = w.all = take(w.count);
  w.tokens = next(&at, s.vocab * c);
  w.places = next(&at, s.length * c);
  w.layer = take(s.layers * sizeof(Layer) / sizeof(float));
  for (int l = 0; l < s.layers; ++l) {
    float **parts = (float **)&w.layer[l];
    size_t sizes[] = {c, c, 3 * c * c, 3 * c, c * c,     c,
                      c, c, 4 * c * c, 4 * c, 4 * c * c, c};
    for (int p = 0; p < 12; ++p)
      parts[p] = next(&at, sizes[p]);
  }
  w.norm = next(&at, c);
  w.normb = next(&at, c);
  return w;
}

// ---- Products: y = x·wᵀ + b

static void linear(float *y, const float *x, const float *w, const float *b,
                   int rows, int in, int out) {
#pragma omp parallel for
  for (int r = 0; r < rows; r += TILE)
    for (int o = 0; o < out; ++o) {
      float sums[TILE] = {0};
      for (int i = 0; i < in; ++i)
        for (int t = 0; t < TILE; ++t)
          sums[t] += x[(size_t)(r + t) * in + i] * w[(size_t)o * in + i];
      for (int t = 0; t < TILE; ++t)
        y[(size_t)(r + t) * out + o] = sums[t] + (b ? b[o] : 0);
    }
}

static void linearBackward(float *dx, float *dw, float *db, const float *dy,
                           const float *x, const float *w, int rows, int in,
                           int out) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    float *to = dx + (size_t)r * in;
    memset(to, 0, in * sizeof(float));
    for (int o = 0; o < out; ++o) {
      float d = dy[(size_t)r * out + o];
      for (int i = 0; i < in; ++i)
        to[i] += d * w[(size_t)o * in + i];
    }
  }
#pragma omp parallel for
  for (int o = 0; o < out; ++o)
    for (int r = 0; r < rows; ++r) {
      float d = dy[(size_t)r * out + o];
      if (db)
        db[o] += d;
      for (int i = 0; i < in; ++i)
        dw[(size_t)o * in + i] += d * x[(size_t)r * in + i];
    }
}

// ---- Norms

static void norm(float *y, float *mean, float *rstd, const float *x,
                 const float *w, const float *b, int rows, int c) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    const float *from = x + (size_t)r * c;
    float m = 0, v = 0;
    for (int i = 0; i < c; ++i)
      m += from[i] / c;
    for (int i = 0; i < c; ++i)
      v += (from[i] - m) * (from[i] - m) / c;
    mean[r] = m;
    rstd[r] = 1 / sqrtf(v + 1e-5f);
    for (int i = 0; i < c; ++i)
      y[(size_t)r * c + i] = (from[i] - m) * rstd[r] * w[i] + b[i];
  }
}

// Adds to dx, which has the gradient that goes around the norm.
static void normBackward(float *dx, float *dw, float *db, const float *dy,
                         const float *x, const float *mean, const float *rstd,
                         const float *w, int rows, int c) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    const float *from = x + (size_t)r * c, *d = dy + (size_t)r * c;
    float sum = 0, dot = 0;
    for (int i = 0; i < c; ++i) {
      sum += d[i] * w[i] / c;
      dot += d[i] * w[i] * (from[i] - mean[r]) * rstd[r] / c;
    }
    for (int i = 0; i < c; ++i)
      dx[(size_t)r * c + i] +=
          (d[i] * w[i] - sum - (from[i] - mean[r]) * rstd[r] * dot) * rstd[r];
  }
#pragma omp parallel for
  for (int i = 0; i < c; ++i)
    for (int r = 0; r < rows; ++r) {
      size_t at = (size_t)r * c + i;
      dw[i] += dy[at] * (x[at] - mean[r]) * rstd[r];
      db[i] += dy[at];
    }
}

// ---- Attention: a task for each sample and head

static void attention(float *y, float *weights, const float *qkv, int batch,
                      Shape s) {
  int t = s.length, c = s.width, d = c / s.heads;
  float scale = 1 / sqrtf(d);
#pragma omp parallel for collapse(2)
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < t; ++i) {
        const float *at = qkv + (size_t)b * t * 3 * c + h * d;
        const float *q = at + (size_t)i * 3 * c;
        float *p = weights + ((size_t)(b * s.heads + h) * t + i) * t;
        float *to = y + ((size_t)b * t + i) * c + h * d;
        float top = -INFINITY, sum = 0;
        for (int j = 0; j <= i; ++j) {
          const float *k = at + (size_t)j * 3 * c + c;
          float score = 0;
          for (int e = 0; e < d; ++e)
            score += q[e] * k[e];
          p[j] = score * scale;
          top = p[j] > top ? p[j] : top;
        }
        for (int j = 0; j <= i; ++j)
          sum += p[j] = expf(p[j] - top);
        memset(to, 0, d * sizeof(float));
        for (int j = 0; j <= i; ++j) {
          const float *v = at + (size_t)j * 3 * c + 2 * c;
          p[j] /= sum;
          for (int e = 0; e < d; ++e)
            to[e] += p[j] * v[e];
        }
      }
}

// dqkv starts as zeros.
static void attentionBackward(float *dqkv, const float *dy,
                              const float *weights, const float *qkv, int batch,
                              Shape s) {
  int t = s.length, c = s.width, d = c / s.heads;
  float scale = 1 / sqrtf(d);
#pragma omp parallel for collapse(2)
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < t; ++i) {
        const float *at = qkv + (size_t)b * t * 3 * c + h * d;
        float *to = dqkv + (size_t)b * t * 3 * c + h * d;
        const float *p = weights + ((size_t)(b * s.heads + h) * t + i) * t;
        const float *from = dy + ((size_t)b * t + i) * c + h * d;
        const float *q = at + (size_t)i * 3 * c;
        float *dq = to + (size_t)i * 3 * c, dot = 0;
        for (int pass = 0; pass < 2; ++pass)
          for (int j = 0; j <= i; ++j) {
            const float *k = at + (size_t)j * 3 * c + c, *v = k + c;
            float *dk = to + (size_t)j * 3 * c + c, *dv = dk + c, dp = 0;
            for (int e = 0; e < d; ++e)
              dp += from[e] * v[e];
            if (pass == 0) {
              dot += p[j] * dp;
              for (int e = 0; e < d; ++e)
                dv[e] += p[j] * from[e];
              continue;
            }
            float ds = p[j] * (dp - dot) * scale;
            for (int e = 0; e < d; ++e) {
              dq[e] += ds * k[e];
              dk[e] += ds * q[e];
            }
          }
      }
}

// ---- GELU, by tanh

static const float kRoot = 0.7978845608f; // sqrt(2/pi)

static void gelu(float *y, const float *x, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) {
    float u = kRoot * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    y[i] = 0.5f * x[i] * (1 + tanhf(u));
  }
}

static void geluBackward(float *d, const float *x, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) {
    float t = tanhf(kRoot * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    float slope = kRoot * (1 + 3 * 0.044715f * x[i] * x[i]);
    d[i] *= 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * slope;
  }
}

// ---- The loss, and its gradient in place of the logits

static double crossEntropy(float *logits, const uint16_t *tokens, int batch,
                           Shape s, size_t first, size_t samples) {
  int rows = batch * s.length;
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (int r = 0; r < rows; ++r) {
    float *row = logits + (size_t)r * s.vocab, top = -INFINITY, sum = 0;
    size_t sample = (first + r / s.length) % samples;
    int label = tokens[sample * s.length + r % s.length + 1];
    for (int v = 0; v < s.vocab; ++v)
      top = row[v] > top ? row[v] : top;
    float wanted = row[label] - top;
    for (int v = 0; v < s.vocab; ++v)
      sum += row[v] = expf(row[v] - top);
    for (int v = 0; v < s.vocab; ++v)
      row[v] /= sum * rows;
    row[label] -= 1.0f / rows;
    loss += (logf(sum) - wanted) / rows;
  }
  return loss;
}

// ---- The model

typedef struct {
  Shape s;
  int batch;
  Weights w, g;
  Saved *saved;
  float *out, *normed, *mean, *rstd, *logits;
  float *d, *dnorm, *dwide, *dqkv, *dheads; // gradients that pass by
  float *m, *v;
} Model;

static Model makeModel(Shape s, int batch) {
  size_t rows = (size_t)batch * s.length, c = s.width;
  Model m = {.s = s, .batch = batch, .w = makeWeights(s), .g = makeWeights(s)};
  m.saved = take(s.layers * sizeof(Saved) / sizeof(float));
  for (int l = 0; l < s.layers; ++l)
    m.saved[l] = (Saved){
        take(rows * c),    take(rows * c),     take(rows),
        take(rows),        take(rows * 3 * c), take(rows * s.heads * s.length),
        take(rows * c),    take(rows * c),     take(rows * c),
        take(rows),        take(rows),         take(rows * 4 * c),
        take(rows * 4 * c)};
  m.out = take(rows * c), m.normed = take(rows * c);
  m.mean = take(rows), m.rstd = take(rows);
  m.logits = take(rows * s.vocab);
  m.d = take(rows * c), m.dnorm = take(rows * c), m.dwide = take(rows * 4 * c);
  m.dqkv = take(rows * 3 * c), m.dheads = take(rows * c);
  m.m = take(m.w.count), m.v = take(m.w.count);
  return m;
}

static void add(float *y, const float *a, const float *b, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i)
    y[i] = a[i] + b[i];
}

static void forward(Model *m, const uint16_t *tokens, size_t first,
                    size_t samples) {
  Shape s = m->s;
  int rows = m->batch * s.length, c = s.width;
  float *x = m->saved[0].in;
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    size_t sample = (first + r / s.length) % samples;
    int token = tokens[sample * s.length + r % s.length];
    for (int i = 0; i < c; ++i)
      x[(size_t)r * c + i] = m->w.tokens[(size_t)token * c + i] +
                             m->w.places[(size_t)(r % s.length) * c + i];
  }
  for (int l = 0; l < s.layers; ++l) {
    Layer w = m->w.layer[l];
    Saved a = m->saved[l];
    float *out = l + 1 < s.layers ? m->saved[l + 1].in : m->out;
    norm(a.norm1, a.mean1, a.rstd1, a.in, w.norm1, w.norm1b, rows, c);
    linear(a.qkv, a.norm1, w.qkv, w.qkvb, rows, c, 3 * c);
    attention(a.heads, a.weights, a.qkv, m->batch, s);
    linear(a.mid, a.heads, w.proj, w.projb, rows, c, c);
    add(a.mid, a.mid, a.in, (size_t)rows * c);
    norm(a.norm2, a.mean2, a.rstd2, a.mid, w.norm2, w.norm2b, rows, c);
    linear(a.up, a.norm2, w.up, w.upb, rows, c, 4 * c);
    gelu(a.gelu, a.up, (size_t)rows * 4 * c);
    linear(out, a.gelu, w.down, w.downb, rows, 4 * c, c);
    add(out, out, a.mid, (size_t)rows * c);
  }
  norm(m->normed, m->mean, m->rstd, m->out, m->w.norm, m->w.normb, rows, c);
  linear(m->logits, m->normed, m->w.tokens, NULL, rows, c, s.vocab);
}

// Of the embedding: by columns, so that no two threads write one element.
static void embeddingBackward(Model *m, const uint16_t *tokens, size_t first,
                              size_t samples) {
  Shape s = m->s;
  int rows = m->batch * s.length, c = s.width;
#pragma omp parallel for
  for (int part = 0; part < c / 16; ++part)
    for (int r = 0; r < rows; ++r) {
      size_t sample = (first + r / s.length) % samples;
      int token = tokens[sample * s.length + r % s.length];
      for (int i = part * 16; i < part * 16 + 16; ++i) {
        m->g.tokens[(size_t)token * c + i] += m->d[(size_t)r * c + i];
        m->g.places[(size_t)(r % s.length) * c + i] += m->d[(size_t)r * c + i];
      }
    }
}

static void backward(Model *m, const uint16_t *tokens, size_t first,
                     size_t samples) {
  Shape s = m->s;
  int rows = m->batch * s.length, c = s.width;
  size_t size = (size_t)rows * c * sizeof(float);
  memset(m->g.all, 0, m->g.count * sizeof(float));
  linearBackward(m->dnorm, m->g.tokens, NULL, m->logits, m->normed, m->w.tokens,
                 rows, c, s.vocab);
  memset(m->d, 0, size);
  normBackward(m->d, m->g.norm, m->g.normb, m->dnorm, m->out, m->mean, m->rstd,
               m->w.norm, rows, c);
  for (int l = s.layers - 1; l >= 0; --l) {
    Layer w = m->w.layer[l], g = m->g.layer[l];
    Saved a = m->saved[l];
    linearBackward(m->dwide, g.down, g.downb, m->d, a.gelu, w.down, rows, 4 * c,
                   c);
    geluBackward(m->dwide, a.up, (size_t)rows * 4 * c);
    linearBackward(m->dnorm, g.up, g.upb, m->dwide, a.norm2, w.up, rows, c,
                   4 * c);
    normBackward(m->d, g.norm2, g.norm2b, m->dnorm, a.mid, a.mean2, a.rstd2,
                 w.norm2, rows, c);
    linearBackward(m->dheads, g.proj, g.projb, m->d, a.heads, w.proj, rows, c,
                   c);
    memset(m->dqkv, 0, 3 * size);
    attentionBackward(m->dqkv, m->dheads, a.weights, a.qkv, m->batch, s);
    linearBackward(m->dnorm, g.qkv, g.qkvb, m->dqkv, a.norm1, w.qkv, rows, c,
                   3 * c);
    normBackward(m->d, g.norm1, g.norm1b, m->dnorm, a.in, a.mean1, a.rstd1,
                 w.norm1, rows, c);
  }
  embeddingBackward(m, tokens, first, samples);
}

// Clips, then AdamW. Returns the norm before clipping.
static double update(Model *m, int step, double lr) {
  double square = 0;
#pragma omp parallel for reduction(+ : square)
  for (size_t i = 0; i < m->g.count; ++i)
    square += (double)m->g.all[i] * m->g.all[i];
  double length = sqrt(square), clip = 1 / (length + 1e-6);
  float scale = clip < 1 ? clip : 1, rate = lr / (1 - pow(0.9, step));
  float correction = 1 / sqrt(1 - pow(0.95, step)), decay = 1 - lr * 0.1;
#pragma omp parallel for
  for (size_t i = 0; i < m->g.count; ++i) {
    float g = m->g.all[i] * scale;
    m->m[i] = 0.9f * m->m[i] + 0.1f * g;
    m->v[i] = 0.95f * m->v[i] + 0.05f * g * g;
    m->w.all[i] = m->w.all[i] * decay -
                  rate * m->m[i] / (sqrtf(m->v[i]) * correction + 1e-8f);
  }
  return length;
}

static FILE *openFile(const char *path, const char *how) {
  FILE *file = fopen(path, how);
  if (!file) {
    fprintf(stderr, "gpt2: error: cannot open %s\n", path);
    exit(1);
  }
  return file;
}

static void readAll(void *to, size_t size, FILE *file, const char *path) {
  if (fread(to, 1, size, file) != size) {
    fprintf(stderr, "gpt2: error: %s ends too early\n", path);
    exit(1);
  }
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

int main(int count, char **words) {
  if (count != 7) {
    fputs("gpt2: error: WEIGHTS TOKENS STEPS BATCH LR LOG are expected\n",
          stderr);
    return 2;
  }
  Shape s;
  FILE *file = openFile(words[1], "rb");
  readAll(&s, sizeof s, file, words[1]);
  int steps = atoi(words[3]), batch = atoi(words[4]);
  if (batch < 1 || batch * s.length % TILE || s.width % 16) {
    fputs("gpt2: error: rows must be a multiple of 8, the width of 16\n",
          stderr);
    return 1;
  }
  Model m = makeModel(s, batch);
  readAll(m.w.all, m.w.count * sizeof(float), file, words[1]);
  fclose(file);
  file = openFile(words[2], "rb");
  fseek(file, 0, SEEK_END);
  size_t tokens = ftell(file) / 2, samples = (tokens - 1) / s.length;
  uint16_t *data = take(tokens / 2 + 1);
  rewind(file);
  readAll(data, tokens * 2, file, words[2]);
  fclose(file);
  file = openFile(words[6], "w");
  for (int step = 1; step <= steps; ++step) {
    double begin = milliseconds();
    size_t first = (size_t)(step - 1) * batch;
    forward(&m, data, first, samples);
    double loss = crossEntropy(m.logits, data, batch, s, first, samples);
    backward(&m, data, first, samples);
    double length = update(&m, step, atof(words[5]));
    fprintf(file,
            "{\"step\": %d, \"loss\": %.7f, \"grad_norm\": %.7f, "
            "\"step_ms\": %.3f}\n",
            step, loss, length, milliseconds() - begin);
    fflush(file);
  }
  fclose(file);
  return 0;
}
