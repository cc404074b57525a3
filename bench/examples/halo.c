/* Heat on a square plate by Jacobi's method: the plate is cut into a grid of blocks, one for each
 * rank, and before every step each block swaps its edges with its four neighbours. Afterwards the
 * result is compared, bit for bit, with the same steps taken by rank 0 alone.
 *
 * A block with its halo (h) of cells that belong to the neighbours:
 *
 *        h h h h h
 *      h . . . . . h
 *      h . . . . . h      rows x columns own cells, stored row by row
 *        h h h h h        with rows + 2 and columns + 2
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 96, STEPS = 60 };
enum { UP, DOWN, LEFT, RIGHT, SIDES };

struct block {
    int grid_rows, grid_columns;       /* the grid of ranks */
    int first_row, first_column;       /* where this block's own cells begin on the plate */
    int rows, columns;                 /* own cells */
    int neighbour[SIDES];
    double *now, *next;
};

static int width(const struct block *block) { return block->columns + 2; }

static double *cell(const struct block *block, double *cells, int row, int column) {
    return &cells[row * width(block) + column];
}

/* The most square grid of `size` ranks. */
static void choose_grid(struct block *block, int size) {
    block->grid_rows = 1;
    for (int rows = 1; rows * rows <= size; rows++)
        if (size % rows == 0) block->grid_rows = rows;
    block->grid_columns = size / block->grid_rows;
}

/* Where part `index` begins when CELLS are dealt to `parts`. */
static int part_start(int index, int parts) { return (int)((long)CELLS * index / parts); }

static int rank_at(const struct block *block, int row, int column) {
    if (row < 0 || row >= block->grid_rows || column < 0 || column >= block->grid_columns)
        return MPI_PROC_NULL;
    return row * block->grid_columns + column;
}

/* The top edge of the plate is hot, the others are cold, and one spot inside starts warm. */
static double start_heat(int row, int column) {
    if (row < 0) return 100.0;
    if (column < 0 || row >= CELLS || column >= CELLS) return 0.0;
    return row == CELLS / 3 && column == CELLS / 2 ? 50.0 : 0.0;
}

static void open_block(struct block *block, int rank, int size) {
    choose_grid(block, size);
    int row = rank / block->grid_columns, column = rank % block->grid_columns;
    block->first_row = part_start(row, block->grid_rows);
    block->first_column = part_start(column, block->grid_columns);
    block->rows = part_start(row + 1, block->grid_rows) - block->first_row;
    block->columns = part_start(column + 1, block->grid_columns) - block->first_column;
    block->neighbour[UP] = rank_at(block, row - 1, column);
    block->neighbour[DOWN] = rank_at(block, row + 1, column);
    block->neighbour[LEFT] = rank_at(block, row, column - 1);
    block->neighbour[RIGHT] = rank_at(block, row, column + 1);
    size_t cells = (size_t)(block->rows + 2) * (size_t)width(block);
    block->now = malloc(cells * sizeof(double));
    block->next = malloc(cells * sizeof(double));
    if (block->now == NULL || block->next == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int r = 0; r < block->rows + 2; r++)
        for (int c = 0; c < block->columns + 2; c++)
            *cell(block, block->now, r, c) =
                start_heat(block->first_row + r - 1, block->first_column + c - 1);
    memcpy(block->next, block->now, cells * sizeof(double));
}

/* Rows lie together in memory; columns are copied to and from buffers. */
static void swap_halo(struct block *block) {
    double out[2][CELLS], in[2][CELLS];
    MPI_Request requests[2 * SIDES];
    int rows = block->rows, columns = block->columns, *to = block->neighbour, n = 0;
    double *above = cell(block, block->now, 0, 1), *below = cell(block, block->now, rows + 1, 1);
    double *top = cell(block, block->now, 1, 1), *bottom = cell(block, block->now, rows, 1);
    MPI_Irecv(above, columns, MPI_DOUBLE, to[UP], DOWN, MPI_COMM_WORLD, &requests[n++]);
    MPI_Irecv(below, columns, MPI_DOUBLE, to[DOWN], UP, MPI_COMM_WORLD, &requests[n++]);
    MPI_Irecv(in[0], rows, MPI_DOUBLE, to[LEFT], RIGHT, MPI_COMM_WORLD, &requests[n++]);
    MPI_Irecv(in[1], rows, MPI_DOUBLE, to[RIGHT], LEFT, MPI_COMM_WORLD, &requests[n++]);
    for (int r = 0; r < rows; r++) {
        out[0][r] = *cell(block, block->now, r + 1, 1);
        out[1][r] = *cell(block, block->now, r + 1, columns);
    }
    MPI_Isend(top, columns, MPI_DOUBLE, to[UP], UP, MPI_COMM_WORLD, &requests[n++]);
    MPI_Isend(bottom, columns, MPI_DOUBLE, to[DOWN], DOWN, MPI_COMM_WORLD, &requests[n++]);
    MPI_Isend(out[0], rows, MPI_DOUBLE, to[LEFT], LEFT, MPI_COMM_WORLD, &requests[n++]);
    MPI_Isend(out[1], rows, MPI_DOUBLE, to[RIGHT], RIGHT, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int r = 0; r < rows; r++) {
        if (to[LEFT] != MPI_PROC_NULL) *cell(block, block->now, r + 1, 0) = in[0][r];
        if (to[RIGHT] != MPI_PROC_NULL) *cell(block, block->now, r + 1, columns + 1) = in[1][r];
    }
}

/* One step; the answer is the largest change of a cell. */
static double step(struct block *block) {
    double change = 0;
    for (int r = 1; r <= block->rows; r++) {
        for (int c = 1; c <= block->columns; c++) {
            double mean = (*cell(block, block->now, r - 1, c) + *cell(block, block->now, r + 1, c) +
                           *cell(block, block->now, r, c - 1) + *cell(block, block->now, r, c + 1)) / 4;
            double difference = mean - *cell(block, block->now, r, c);
            if (difference < 0) difference = -difference;
            if (difference > change) change = difference;
            *cell(block, block->next, r, c) = mean;
        }
    }
    double *old = block->now;
    block->now = block->next;
    block->next = old;
    return change;
}

/* The whole plate computed without any neighbour, to compare with. */
static void compute_alone(struct block *whole, double *change) {
    open_block(whole, 0, 1);
    for (int i = 0; i < STEPS; i++) *change = step(whole);
}

/* Own cells that differ from the plate that rank 0 computed alone. */
static long compare(struct block *block, double *plate) {
    long wrong = 0;
    MPI_Bcast(plate, CELLS * CELLS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int r = 0; r < block->rows; r++)
        for (int c = 0; c < block->columns; c++)
            wrong += *cell(block, block->now, r + 1, c + 1) !=
                     plate[(block->first_row + r) * CELLS + block->first_column + c];
    return wrong;
}

int main(int argc, char **argv) {
    struct block block;
    int rank, size;
    double change = 0, largest = 0, change_alone = 0;
    static double plate[CELLS * CELLS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_block(&block, rank, size);
    if (block.grid_columns > CELLS) {
        if (rank == 0) fprintf(stderr, "halo: %d ranks in a row are more than %d cells\n", block.grid_columns, CELLS);
        MPI_Finalize();
        return 2;
    }
    for (int i = 0; i < STEPS; i++) {
        swap_halo(&block);
        change = step(&block);
        MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        struct block whole;
        compute_alone(&whole, &change_alone);
        for (int r = 0; r < CELLS; r++)
            memcpy(&plate[r * CELLS], cell(&whole, whole.now, r + 1, 1), CELLS * sizeof(double));
        free(whole.now);
        free(whole.next);
    }
    long wrong = compare(&block, plate), all_wrong = 0;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        all_wrong += largest != change_alone;
        printf("halo: %dx%d cells on %dx%d ranks, %d steps, last change %.6f: %s\n", CELLS, CELLS,
               block.grid_rows, block.grid_columns, STEPS, largest, all_wrong == 0 ? "same as alone" : "WRONG");
    }
    free(block.now);
    free(block.next);
    MPI_Finalize();
    return all_wrong != 0;
}
