# SPDX-License-Identifier: MIT
"""TransformerEncoder, MaskedLanguageModel and SequenceClassifier: transformers' BERT with random
parameters, tiny.

Cases without `directory` carry their parameters under Eigenformer's names. Cases with
`directory` hold inputs and outputs only; the parameters are in checkpoints/<directory> under
transformers' names.

Version 5 of transformers has no relative positions any more; they are written out here as version 4
had them.
"""

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
)
from transformers.models.bert.modeling_bert import BertPooler, BertSelfAttention

from checkpoint import load_again, save_directory
from golden import FOLDER, GoldenFile, key_padding, random_ids, random_tensor, randomize, rename

B, T, V = 3, 7, 37
LENGTHS = [7, 4, 1]
SHAPE = {
    "vocab_size": V,
    "hidden_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 13,
    "max_position_embeddings": 11,
    "type_vocab_size": 3,
}

LAYER_NAMES = (
    ("word_embeddings", "token"),
    ("position_embeddings", "position"),
    ("token_type_embeddings", "token_type"),
    ("embeddings.LayerNorm", "embeddings.norm"),
    ("encoder.layer.", "layers."),
    ("attention.self.", "attention."),
    ("attention.output.LayerNorm", "attention_norm"),
    ("attention.output.dense", "attention.output"),
    ("intermediate.dense", "feed_forward.linear_1"),
    ("output.LayerNorm", "feed_forward_norm"),
    ("output.dense", "feed_forward.linear_2"),
)
HEAD_NAMES = (
    ("bert.pooler.", "pooler."),
    ("bert.", "encoder."),
    ("cls.predictions.transform.dense", "head.transform"),
    ("cls.predictions.transform.LayerNorm", "head.norm"),
    ("cls.predictions.", "head."),
)


def bert_config(**options):
    return BertConfig(
        **SHAPE,
        pad_token_id=0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **options,
    )


def inputs():
    ids = random_ids(1, (B, T), 1, V)
    ids[~key_padding(LENGTHS, T)] = 0
    return {"ids": ids, "token_types": random_ids(2, (B, T), 0, 3)}


def with_old_names(tensors):
    """As in the files of 2018: gamma and beta in the norms, the position_ids buffer, and the
    tied decoder stored a second time.
    """
    changed = {}
    for name, tensor in tensors.items():
        changed[
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
        ] = tensor
    changed["bert.embeddings.position_ids"] = torch.arange(SHAPE["max_position_embeddings"])[None]
    changed["cls.predictions.decoder.weight"] = tensors[
        "bert.embeddings.word_embeddings.weight"
    ].clone()
    changed["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    return changed


class RelativeSelfAttention(BertSelfAttention):
    """Scores (q k + q p [+ k p]) / sqrt(D), p the row query position - key position + M - 1 of a
    table (2 M - 1, D).
    """

    def __init__(self, config):
        super().__init__(config)
        self.rows = config.max_position_embeddings
        self.distance_embedding = torch.nn.Embedding(2 * self.rows - 1, self.attention_head_size)

    def forward(self, hidden_states, attention_mask=None, **ignored):
        def split(x):
            return x.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)

        query, key, value = (
            split(linear(hidden_states)) for linear in (self.query, self.key, self.value)
        )
        place = torch.arange(query.shape[2])
        p = self.distance_embedding(place[:, None] - place[None, :] + self.rows - 1)
        scores = query @ key.transpose(2, 3) + torch.einsum("bhtd,tsd->bhts", query, p)
        if self.config.position_embedding_type == "relative_key_query":
            scores = scores + torch.einsum("bhsd,tsd->bhts", key, p)
        weights = torch.softmax(scores / query.shape[3] ** 0.5 + attention_mask, dim=-1)
        return (weights @ value).transpose(1, 2).flatten(2), weights


def relative_model(kind, seed):
    """Its position table, which such a model has without using it, is zero."""
    config = bert_config(position_embedding_type=kind, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False)
    for layer in model.encoder.layer:
        layer.attention.self = RelativeSelfAttention(config)
    randomize(model, seed)
    model.embeddings.position_embeddings.weight.data.zero_()
    return model.eval()


def with_position_table(tensors):
    name = "embeddings.position_embeddings.weight"
    return tensors | {name: random_tensor(11, tuple(tensors[name].shape)).float()}


def make(folder=FOLDER):
    file = GoldenFile("bert")
    checkpoints = GoldenFile("bert_checkpoints")
    keep = key_padding(LENGTHS, T).long()
    scattered = (random_tensor(3, (B, T)) > -0.7).long()
    scattered[:, 2] = 1
    architecture = SHAPE | {
        "activation": "gelu",
        "norm_placement": "post",
        "position_embedding": "learned",
        "layer_norm_eps": 1e-12,
        "padding_id": 0,
    }

    model = randomize(BertModel(bert_config(), add_pooling_layer=False), seed=4)
    source = "transformers.BertModel"
    for case, attention_mask, mask in (
        ("model", None, {}),
        ("model_padding", keep, {"key_lengths": LENGTHS}),
        ("model_key_allowed", scattered, {"key_allowed": scattered.bool()}),
    ):
        file.add(
            case,
            "TransformerEncoder",
            architecture,
            source,
            lambda i, t: model(
                i, token_type_ids=t, attention_mask=attention_mask
            ).last_hidden_state,
            inputs=inputs(),
            torch_module=model,
            convert=rename(*LAYER_NAMES),
            mask=mask,
            gradients=case == "model_padding",
        )
    pooler = randomize(BertPooler(bert_config()), seed=5)
    file.add(
        "pooler",
        "Pooler",
        {"hidden_size": SHAPE["hidden_size"]},
        "transformers BertPooler",
        pooler,
        inputs={"x": random_tensor(6, (B, T, SHAPE["hidden_size"]))},
        torch_module=pooler,
    )

    masked = randomize(BertForMaskedLM(bert_config()), seed=7)
    file.add(
        "masked_language_model",
        "MaskedLanguageModel",
        architecture,
        "transformers.BertForMaskedLM",
        lambda i, t: {"logits": masked(i, token_type_ids=t, attention_mask=keep).logits},
        inputs=inputs(),
        torch_module=masked,
        convert=rename(*LAYER_NAMES, *HEAD_NAMES),
        mask={"key_lengths": LENGTHS},
    )
    classifier = randomize(BertForSequenceClassification(bert_config(num_labels=5)), seed=8)
    file.add(
        "sequence_classifier",
        "SequenceClassifier",
        architecture | {"num_labels": 5},
        "transformers.BertForSequenceClassification",
        lambda i, t: {"logits": classifier(i, token_type_ids=t, attention_mask=keep).logits},
        inputs=inputs(),
        torch_module=classifier,
        convert=rename(*LAYER_NAMES, *HEAD_NAMES),
        mask={"key_lengths": LENGTHS},
    )

    def directory(name, model, run, change=None, known=True):
        outputs = checkpoints.add(
            name,
            type(model).__name__,
            {},
            f"transformers.{type(model).__name__}",
            lambda i, t: run(model, input_ids=i, token_type_ids=t, attention_mask=keep),
            inputs=inputs(),
            mask={"key_lengths": LENGTHS},
            gradients=False,
            extra={"directory": name},
        )
        save_directory(model, folder / "checkpoints" / name, change)
        if not known:
            return
        again = run(
            load_again(model, folder / "checkpoints" / name),
            **{
                "input_ids": inputs()["ids"],
                "attention_mask": keep,
                "token_type_ids": inputs()["token_types"],
            },
        )
        for output, value in outputs.items():
            assert torch.allclose(again[output], value, rtol=1e-12, atol=1e-12), (name, output)

    model = randomize(BertModel(bert_config()), seed=9)
    directory(
        "bert_model",
        model,
        lambda m, **i: {n: m(**i)[n] for n in ("last_hidden_state", "pooler_output")},
    )
    directory("bert_masked_lm", masked, lambda m, **i: {"logits": m(**i).logits})
    directory("bert_sequence_classification", classifier, lambda m, **i: {"logits": m(**i).logits})
    pretraining = randomize(BertForPreTraining(bert_config()), seed=10)
    directory(
        "bert_pretraining_old_names",
        pretraining,
        lambda m, **i: {
            "last_hidden_state": m.bert(**i).last_hidden_state,
            "logits": m(**i).prediction_logits,
        },
        with_old_names,
    )
    for kind in ("relative_key", "relative_key_query"):
        directory(
            f"bert_{kind}",
            relative_model(kind, seed=12),
            lambda m, **i: {"last_hidden_state": m(**i).last_hidden_state},
            with_position_table,
            known=False,
        )
    return [file, checkpoints]


if __name__ == "__main__":
    for file in make():
        file.write()
