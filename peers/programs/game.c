#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* A game's loop: events, a picture, and a delay until the next frame. How late the delays end, in us. */
int main(void)
{
    enum { FRAMES = 120, DELAY_MS = 2 };
    static double late[FRAMES];
    SDL_Event event;

    if (SDL_Init(SDL_INIT_VIDEO) != 0)
        return 1;
    SDL_Window *window = SDL_CreateWindow("game", 0, 0, 64, 48, SDL_WINDOW_HIDDEN);
    SDL_Surface *picture = window ? SDL_GetWindowSurface(window) : NULL;
    FILE *figures = fopen(getenv("FIGURES"), "w");

    if (!picture || !figures)
        return 2;
    for (int i = 0; i < FRAMES; i++) {
        while (SDL_PollEvent(&event))
            ;
        SDL_FillRect(picture, NULL, (Uint32)i);
        SDL_UpdateWindowSurface(window);
        Uint64 begin = SDL_GetPerformanceCounter();
        SDL_Delay(DELAY_MS);
        Uint64 end = SDL_GetPerformanceCounter();
        late[i] = 1e6 * (double)(end - begin) / (double)SDL_GetPerformanceFrequency() - 1e3 * DELAY_MS;
    }
    qsort(late, FRAMES, sizeof *late, by_size);
    fprintf(figures, "%f\n", late[FRAMES / 2]);
    fclose(figures);
    printf("%d frames, the last with %u\n", FRAMES, *(Uint32 *)picture->pixels);
    SDL_Quit();
    return 0;
}
