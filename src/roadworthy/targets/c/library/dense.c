/* y = b + x W. The sum of each output runs over k in one fixed order, whatever the width of the
   machine's vectors. Words in capitals are filled in by kernels/dense.py. */

/* Rows go by fours and threes, so that few are left over: 9 are three threes. */
static void rw_dense(const float *x, const float *w, const float *b, float *y,
    int rows, int n, int row, int runs, int run, int apart, int width)
{
    int start = 0, column, taken, tall, left;
    for (; start < n; w += width * runs * run, start += width) {
        while (width > n - start) {
            width /= 2;
        }
        for (column = 0; column < width; column += taken * RW_LANES) {
            const float *wc = w + column, *bc = b + start + column, *xr = x;
            float *yr = y + start + column;
            const int most = rows < 3 ? RW_LONG : RW_WIDE;
            taken = 1;
            while (taken < most && 2 * taken * RW_LANES <= width - column) {
                taken *= 2;
            }
            for (left = rows; left > 0; left -= tall, xr += tall * row, yr += tall * n) {
                tall = left > 3 && left != 6 && left != 9 ? 4 : left > 2 ? 3 : 1;
                switch (10 * tall + taken) {
                case 44:
                    rw_block_4x4(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 42:
                    rw_block_4x2(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 41:
                    rw_block_4x1(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 34:
                    rw_block_3x4(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 32:
                    rw_block_3x2(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 31:
                    rw_block_3x1(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 14:
                    rw_block_1x4(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 12:
                    rw_block_1x2(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 11:
                    rw_block_1x1(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                case 18:
                    rw_block_1x8(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
                default:
                    break;
                }
            }
        }
    }
}

/* Panels side by side are streams of memory: several come faster than one. Where the last step
   ended, the next one begins: of weights that fill a cache that end is still in it. */
static void rw_vector(const float *x, const float *w, const float *b, float *y, int n, int run,
    int back)
{
    const int long_one = 8 * RW_LANES, short_one = 4 * RW_LANES;
    int start = 0;
    if (RW_COLUMNS < long_one && RW_LONG == 8) {
        const int whole = n / long_one * long_one;
        for (; start < whole; start += long_one) {
            const int at = back ? whole - long_one - start : start;
            rw_side_8(x, w + at * run, b + at, y + at, run);
        }
        w += whole * run;
    }
    if (RW_COLUMNS < short_one && n - start >= short_one) {
        rw_side_4(x, w, b + start, y + start, run);
        start += short_one;
        w += short_one * run;
    }
    if (start < n) {
        rw_dense(x, w, b + start, y + start, 1, n - start, 0, 1, run, 0, RW_COLUMNS);
    }
}

static void rw_narrow(const float *x, const float *w, const float *b, float *y, int n, int run)
{
    const int quarter = run / 4;
    int start = 0, width, column, k;
    for (; start < n; start += width) {
        width = n - start >= 32 && RW_COLUMNS >= 32 ? 32 : 16;
        for (column = 0; column < width; column += RW_LANES) {
            const float *w0 = w + column, *w1 = w0 + quarter * width;
            const float *w2 = w1 + quarter * width, *w3 = w2 + quarter * width;
            rw_vec a0 = RW_LOAD(b + start + column), a1 = {0}, a2 = {0}, a3 = {0};
            for (k = 0; k < quarter; k++) {
                a0 += x[k] * RW_LOAD(w0 + k * width);
                a1 += x[quarter + k] * RW_LOAD(w1 + k * width);
                a2 += x[2 * quarter + k] * RW_LOAD(w2 + k * width);
                a3 += x[3 * quarter + k] * RW_LOAD(w3 + k * width);
            }
            for (k = 4 * quarter; k < run; k++) {
                a0 += x[k] * RW_LOAD(w0 + k * width);
            }
            RW_SAVE(y + start + column, (a0 + a1) + (a2 + a3));
        }
        w += width * run;
    }
}

static void rw_dot(const float *x, const float *w, const float *b, float *y, int n, int run)
{
    int column, k, j;
    for (column = 0; column < n; column++, w += run) {
        float sums[16] = {0};
        for (k = 0; k + 16 <= run; k += 16) {
            for (j = 0; j < 16; j++) {
                sums[j] += x[k + j] * w[k + j];
            }
        }
        for (j = 0; k + j < run; j++) {
            sums[j] += x[k + j] * w[k + j];
        }
        for (k = 8; k > 0; k /= 2) {
            for (j = 0; j < k; j++) {
                sums[j] += sums[j + k];
            }
        }
        y[column] = b[column] + sums[0];
    }
}

/* Weights row by row: for doubles and whole numbers, which policies rarely hold, and for weights
   that are stored in fewer bytes than a float has. */
static void rw_PLAIN(const TYPE *x, const HELD *w, const TYPE *b, TYPE *y,
    int rows, int n, int wide, int row, int runs, int run, int apart)
{
    int r, c, i, k;
    for (r = 0; r < rows; r++) {
        for (c = 0; c < n; c++) {
            y[r * wide + c] = b[c];
        }
        for (i = 0; i < runs; i++) {
            for (k = 0; k < run; k++) {
                const TYPE value = x[r * row + i * apart + k];
                const HELD *line = w + (i * run + k) * n;
                for (c = 0; c < n; c++) {
                    y[r * wide + c] = (TYPE)((WIDE)y[r * wide + c] + (WIDE)value * (WIDE)READ);
                }
            }
        }
    }
}
