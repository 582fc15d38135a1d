// The core alone on a batch from a file: what a layer's call adds to it is the layer's own.
//   altdiff_call FILE SECONDS THREADS
// The file has int64 numbers (size, n, m, p, and the arrays of each of P, q, G, h, A, b), then these arrays
// and the cotangent of x. Prints the median seconds of a forward pass, and of forward and backward.

#include <algorithm>
#include <altdiff/altdiff.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using altdiff::Index;
using Numbers = std::vector<double>;

struct Case {
  altdiff::BatchProgram program{};
  std::array<Numbers, 6> fields{}, gradients{};
  Numbers x_bar{};

  explicit Case(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<std::int64_t, 10> header{};
    file.read(reinterpret_cast<char*>(header.data()), sizeof header);
    const auto [size, n, m, p] = std::array{header[0], header[1], header[2], header[3]};
    program.size = size;
    program.n = n;
    program.m = m;
    program.p = p;
    const std::array<Index, 6> entries{n * n, n, m * n, m, p * n, p};
    const auto read = [&](Numbers& numbers, Index count) {
      numbers.resize(static_cast<std::size_t>(count));
      file.read(reinterpret_cast<char*>(numbers.data()), count * static_cast<Index>(sizeof(double)));
    };
    for (std::size_t f = 0; f < fields.size(); ++f) {
      read(fields[f], header[4 + f] * entries[f]);
      gradients[f].resize(fields[f].size());
      program.fields[f] = {.data = fields[f].empty() ? nullptr : fields[f].data(), .count = header[4 + f]};
    }
    read(x_bar, size * n);
  }

  altdiff::BatchGradient gradient() {
    altdiff::BatchGradient targets{};
    for (std::size_t f = 0; f < gradients.size(); ++f)
      if (!gradients[f].empty()) targets[f] = gradients[f].data();
    return targets;
  }
};

double median(Numbers& numbers) {
  std::ranges::nth_element(numbers, numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2));
  return numbers[numbers.size() / 2];
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Case given(argv[1]);
  const double end = now() + std::atof(argv[2]);
  const altdiff::Settings settings{.num_threads = std::atoi(argv[3])};
  Numbers forward;
  Numbers both;
  while (now() < end || forward.size() < 3) {
    const double start = now();
    const auto solution = altdiff::solve(given.program, settings);
    forward.push_back(now() - start);
    altdiff::vjp(given.program, solution, {.x = given.x_bar.data()}, given.gradient(), {},
                 settings.num_threads);
    both.push_back(now() - start);
  }
  std::printf("%.9g %.9g\n", median(forward), median(both));
  return 0;
}
