// MPI_Allreduce in place, of floats. Prints "mpi bytes seconds_min seconds_median" for each size, like
// bench_all_reduce.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr double kMeasuredSeconds = 0.25;
  for (const long bytes : {4'000L, 1'000'000L, 25'000'000L, 100'000'000L}) {
    std::vector<float> values(bytes / 4, 0.0F);
    const int repetitions = std::clamp(static_cast<int>(kMeasuredSeconds / (bytes / 4e9 + 3e-6)), 3, 5000);
    std::vector<double> seconds;
    for (int i = 0; i <= repetitions; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (i > 0) seconds.push_back(MPI_Wtime() - start);
    }
    std::sort(seconds.begin(), seconds.end());
    if (rank == 0) std::printf("mpi %ld %.9f %.9f\n", bytes, seconds.front(), seconds[seconds.size() / 2]);
  }
  MPI_Finalize();
}
