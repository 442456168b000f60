// SPDX-License-Identifier: MIT
#include "eigenformer/models/masked_language_model.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace masked_language_model_laws_test {

template <class T>
struct MaskedLanguageModelCase : TextModelCase<T, ef::MaskedLanguageModel<T>> {
  static ef::MaskedLanguageModel<T> make() { return ef::MaskedLanguageModel<T>(small_encoder()); }
  static Parameters parameters() {
    Parameters list = encoder_parameters("encoder.");
    add_linear(list, "head.transform", 53, 53);
    add_norm(list, "head.norm", 53);
    list.emplace_back("head.bias", "(11)");
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 11}; }
};

LAWS_HOLD_FOR(MaskedLanguageModel, MaskedLanguageModelCase);

}  // namespace masked_language_model_laws_test
}  // namespace laws
