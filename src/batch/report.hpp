#pragma once

#include <altdiff/batch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace altdiff::detail {

/// Who gave the answer of an instance of a dense batch.
enum class Route : std::uint8_t { ActiveSet, Proximal, HandedOn };

/// What is told of one instance.
struct ReportLine {
  std::string_view engine{};
  Status status = Status::InvalidData;
  std::int64_t iterations = 0;
  double primal = 0, dual = 0, gap = 0;
};

/// What `Settings::log` hears of a batch. Only the caller's thread talks: instances are worked on by others,
/// which leave what there is to tell until all are done.
class BatchReport {
 public:
  /// `what` are the programs, as `description` says it. Begins the time, and if there are several talks at
  /// once: one program may have an engine that tells of itself.
  BatchReport(const Settings& settings, Index size, const std::string& what);

  /// Of a dense batch; one program that was handed on has told everything itself.
  void tell(const BatchSolution& solution, const std::vector<Route>& routes) const;

  /// A line for each instance, or for those of many that a reader looks for first, and a summary.
  void tell(const std::vector<ReportLine>& lines) const;

 private:
  [[nodiscard]] std::string_view engine(Route route, Status status) const;
  [[nodiscard]] std::string summary(const std::vector<ReportLine>& lines) const;

  const Settings& settings_;
  std::string header_;  // what was not said at once
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// "3 dense programs of 2 variables, 1 inequalities, 0 equalities".
[[nodiscard]] std::string description(Index size, const char* kind, Index n, Index m, Index p);

/// The engine that `solve_one` begins with.
[[nodiscard]] std::string_view engine_of_one(const Settings& settings);

}  // namespace altdiff::detail
