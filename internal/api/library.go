package api

import (
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func (s *Server) postSkill(w http.ResponseWriter, r *http.Request, _ query) error {
	var skill agentkernel.Skill
	if err := readBody(w, r, &skill); err != nil {
		return err
	}
	saved, err := s.kernel(r).SaveSkill(r.Context(), skill)
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, saved)
}

func (s *Server) getSkill(w http.ResponseWriter, r *http.Request, q query) error {
	version, err := q.number("version")
	if err != nil {
		return err
	}
	skill, err := s.kernel(r).Skill(r.Context(), q.text("namespace"), q.text("name"), int(min(version, 1<<30)))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, skill)
}

func (s *Server) listSkills(w http.ResponseWriter, r *http.Request, q query) error {
	limit, err := q.number("limit")
	if err != nil {
		return err
	}
	list, err := s.kernel(r).Skills(r.Context(), agentkernel.SkillQuery{Namespace: q.text("namespace"), Text: q.text("text"), Limit: int(min(limit, 1<<30))})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.SkillList{Skills: notNil(list)})
}

func (s *Server) deleteSkill(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.DeleteSkillRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if err := s.kernel(r).DeleteSkill(r.Context(), body.Namespace, body.Name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getDocument(w http.ResponseWriter, r *http.Request, q query) error {
	d, err := s.kernel(r).Document(r.Context(), q.text("namespace"), q.text("owner"), q.text("name"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, d)
}

func (s *Server) postDocument(w http.ResponseWriter, r *http.Request, _ query) error {
	var d agentkernel.Document
	if err := readBody(w, r, &d); err != nil {
		return err
	}
	d, err := s.kernel(r).PutDocument(r.Context(), d)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, d)
}
