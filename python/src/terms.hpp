#pragma once

#include <string>
#include <tuple>

#include "addresses.hpp"
#include "altdiff/smooth.hpp"

namespace altdiff::python {

/// kind, rows, power, then addresses, counts and places of P, q, weight, map and offset.
using TermArguments =
    std::tuple<std::string, Index, double, Addresses<5>, std::array<Index, 5>, Addresses<5>>;

/// The terms that Python describes; an unknown kind is a ValueError that lists the right ones.
[[nodiscard]] std::vector<Term> terms_at(const std::vector<TermArguments>& arguments);

/// How many numbers an array of a field has, by the field's place among P, q, weight, map and offset.
[[nodiscard]] std::size_t entries_of(const Term& term, std::size_t field, Index n);

/// The fields of a term, in order.
constexpr std::array<BatchField Term::*, 5> term_fields{&Term::P, &Term::q, &Term::weight, &Term::map,
                                                        &Term::offset};
constexpr std::array<double* TermGradient::*, 5> gradient_fields{
    &TermGradient::P, &TermGradient::q, &TermGradient::weight, &TermGradient::map, &TermGradient::offset};

}  // namespace altdiff::python
