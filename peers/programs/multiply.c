#include <cblas.h>
#include <stdio.h>

/* Products of matrices, each by all of the library's threads. */
int main(void)
{
    enum { SIZE = 96, PRODUCTS = 3000 };
    static double a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
    double sum = 0;

    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = i % 7;
        b[i] = i % 5;
    }
    for (int i = 0; i < PRODUCTS; i++) {
        a[i % (SIZE * SIZE)] += 1;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE, 1, a, SIZE, b, SIZE, 0, c, SIZE);
        sum += c[i % (SIZE * SIZE)];
    }
    printf("%.0f\n", sum);
    return 0;
}
