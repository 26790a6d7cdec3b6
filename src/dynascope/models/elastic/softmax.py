"""The logit dynamics before linearisation (B.4), and how far its linearisations carry.

x_k' = Σ_l P_kl Θ_kl (e_l − softmax x_l). With Ψ_l(x) = e_l − softmax x_l, p_l = softmax x_l and
J_l = diag p_l − p_l p_lᵀ the derivative of Ψ is −J: around z the drift is Θ (Ψ(z) + J(z) z) − Θ J(z) x, plus what is
quadratic in x − z. The source prints +J in (B.11) and −J in (B.12); only the latter is the derivative.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import softmax


def margins(means: Float[np.ndarray, "*lead class feature"]) -> Float[np.ndarray, "*lead class feature"]:
    """Ψ_k(x) = e_k − softmax x_k, what cross-entropy still asks of each class. Source: elastic (B.6), (B.8).

    >>> margins(np.zeros((2, 2))).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.asarray(np.eye(*means.shape[-2:]) - softmax(means, axis=-1))


def margin_jacobian(means: Float[np.ndarray, "class feature"]) -> Float[np.ndarray, "state state"]:
    """J, block diagonal with diag p_k − p_k p_kᵀ (B.10): minus the derivative of Ψ. Source: elastic (B.10).

    >>> margin_jacobian(np.zeros((1, 2))).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    classes, features = means.shape
    p = softmax(means, axis=-1)
    blocks = p[:, :, None] * np.eye(features) - p[:, :, None] * p[:, None, :]
    return np.asarray(np.einsum("kl,kij->kilj", np.eye(classes), blocks).reshape(means.size, means.size))


def linearise(
    kernel: Float[np.ndarray, "state state"], around: Float[np.ndarray, "class feature"]
) -> tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "class feature"]]:
    """Matrix and offset with Θ Ψ(x) ≈ matrix · x + offset near `around` (B.7), (B.11)–(B.14).

    matrix = −Θ J(z), offset = Θ (Ψ(z) + J(z) z): the residue Θ R of (B.14). Source: elastic (B.7), (B.11)–(B.14).

    >>> matrix, offset = linearise(np.eye(4), np.zeros((2, 2)))
    >>> matrix[0].tolist(), offset.tolist()
    ([-0.25, 0.25, 0.0, 0.0], [[0.5, -0.5], [-0.5, 0.5]])
    """
    jacobian = margin_jacobian(around)
    residue = margins(around).ravel() + jacobian @ around.ravel()
    return -kernel @ jacobian, (kernel @ residue).reshape(around.shape)
