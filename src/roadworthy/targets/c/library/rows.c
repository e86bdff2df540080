/* Over the rows of a matrix. Words in capitals are filled in by kernels/rows.py; WIDE has no sign
   where TYPE is whole: sums wrap around. */

/* A sum in 16 lanes that are then added in pairs: one order for every machine. */
static void rw_LANES_TYPE(const TYPE *x, TYPE *y, int rows, int n)
{
    int r, k, j;
    for (r = 0; r < rows; r++, x += n) {
        TYPE sums[16] = {0};
        for (k = 0; k + 16 <= n; k += 16) {
            for (j = 0; j < 16; j++) {
                sums[j] = (TYPE)((WIDE)sums[j] + TERM);
            }
        }
        for (j = 0; k + j < n; j++) {
            sums[j] = (TYPE)((WIDE)sums[j] + TERM);
        }
        for (k = 8; k > 0; k /= 2) {
            for (j = 0; j < k; j++) {
                sums[j] = (TYPE)((WIDE)sums[j] + (WIDE)sums[j + k]);
            }
        }
        y[r] = sums[0];
    }
}

static void rw_FOLD_TYPE(const TYPE *x, TYPE *y, int rows, int n)
{
    int r, k;
    for (r = 0; r < rows; r++, x += n) {
        TYPE value = x[0];
        for (k = 1; k < n; k++) {
            value = STEP;
        }
        y[r] = value;
    }
}

static void rw_running_TYPE(const TYPE *x, TYPE *y, int rows, int n)
{
    int r, k;
    for (r = 0; r < rows; r++, x += n, y += n) {
        y[0] = x[0];
        for (k = 1; k < n; k++) {
            y[k] = (TYPE)((WIDE)y[k - 1] + (WIDE)x[k]);
        }
    }
}

/* NaN is the end of the search: nothing comes before the first one. */
static void rw_argEXTREME_TYPE(const TYPE *x, int64_t *y, int rows, int n)
{
    int r, k, best;
    for (r = 0; r < rows; r++, x += n) {
        best = 0;
        for (k = 1; k < nUNLESS_NAN; k++) {
            best = x[k] SIGN x[best]OR_NAN ? k : best;
        }
        y[r] = best;
    }
}

/* The first of equals comes first, and NaN is greater than all. */
static void rw_MOST_TYPE(const TYPE *x, TYPE *y, int64_t *places,
    int rows, int n, int count)
{
    int r, k, found, best, j, taken;
    for (r = 0; r < rows; r++, x += n, y += count, places += count) {
        for (found = 0; found < count; found++) {
            best = -1;
            for (k = 0; k < n; k++) {
                taken = 0;
                for (j = 0; j < found; j++) {
                    taken |= places[j] == k;
                }
                if (!taken && (best < 0 || x[k] SIGN x[best]NAN_GREATEST)) {
                    best = k;
                }
            }
            y[found] = x[best];
            places[found] = best;
        }
    }
}
