#pragma once

#include <altdiff/alternating_differentiation.hpp>
#include <altdiff/batch.hpp>
#include <altdiff/budget.hpp>
#include <altdiff/derivatives.hpp>
#include <altdiff/objective.hpp>
#include <altdiff/own_objective.hpp>
#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>
#include <altdiff/smooth.hpp>
#include <altdiff/solution.hpp>
#include <altdiff/solve.hpp>
#include <altdiff/version.hpp>
#include <altdiff/watch.hpp>
