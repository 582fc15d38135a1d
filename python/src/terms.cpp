#include "terms.hpp"

#include <stdexcept>

namespace altdiff::python {

namespace {

constexpr std::array kinds{"quadratic", "log_sum_exp", "square",       "entropy", "negative_log",
                           "softplus",  "exp",         "pseudo_huber", "power",   "binary_entropy"};

TermKind kind_named(const std::string& name) {
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (name == kinds[i]) return static_cast<TermKind>(i);
  throw std::invalid_argument(
      "kind must be one of quadratic, log_sum_exp, square, entropy, negative_log, softplus, exp, "
      "pseudo_huber, "
      "power, binary_entropy, got '" +
      name + "'");
}

}  // namespace

std::vector<Term> terms_at(const std::vector<TermArguments>& arguments) {
  std::vector<Term> terms;
  for (const auto& [kind, rows, power, data, counts, which] : arguments) {
    const auto field = [&](std::size_t f) { return field_at(data[f], counts[f], which[f]); };
    terms.push_back({.kind = kind_named(kind),
                     .rows = rows,
                     .power = power,
                     .P = field(0),
                     .q = field(1),
                     .weight = field(2),
                     .map = field(3),
                     .offset = field(4)});
  }
  return terms;
}

std::size_t entries_of(const Term& term, std::size_t field, Index n) {
  const Index weights = term.kind == TermKind::LogSumExp ? 1 : term.rows;
  const std::array<Index, 5> entries{n * n, n, weights, term.rows * n, term.rows};
  return static_cast<std::size_t>(entries.at(field));
}

}  // namespace altdiff::python
